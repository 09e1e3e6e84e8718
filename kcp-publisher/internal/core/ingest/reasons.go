package ingest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// reasonsOf returns the reasons of a status to change: empty if it has none.
func reasonsOf(status v1beta2.KymaStatus) *v1beta2.RuntimeReasons {
	if status.Runtime == nil || status.Runtime.Reasons == nil {
		return &v1beta2.RuntimeReasons{}
	}
	return status.Runtime.Reasons.DeepCopy()
}

// orNone returns nil for reasons that are all empty, so that a healthy status does not contain them.
func orNone(why *v1beta2.RuntimeReasons) *v1beta2.RuntimeReasons {
	if cmp.Or(why.Publish, why.Secrets, why.Report, why.Bundle) == "" && len(why.Modules) == 0 {
		return nil
	}
	return why
}

// known returns the reason of an error or document, Other without one.
func known(r reason.Reason, list []reason.Reason) v1beta2.Reason {
	return v1beta2.Reason(cmp.Or(reason.Known(r, list), reason.Other))
}

// publishReason returns the reason why no newer bundle was published, empty without an error.
func publishReason(err error) v1beta2.Reason {
	if err == nil {
		return ""
	}
	if refused := refusal.Of(err); refused != nil {
		switch refused.Reason {
		case refusal.RootExpired:
			return v1beta2.Reason(reason.RootExpired)
		case refusal.UnknownKey, refusal.BadRoot:
			return v1beta2.Reason(reason.KeysNotAccepted)
		}
	}
	return known(reason.Of(err), reason.Publishing)
}

// runtimeReason returns the reason that a runtime reports for a module in trouble or before a maintenance window. Other
// states pass without help, and their reasons are not kept: each change would be a write.
func runtimeReason(status v1beta2.ModuleStatus, r bundle.ReportedModule) v1beta2.Reason {
	switch {
	case status.State == v1beta2.StateError || status.State == v1beta2.StateWarning:
		return known(r.Reason, reason.Modules)
	case status.Maintenance:
		return v1beta2.Reason(reason.Known(r.Reason, reason.Modules))
	}
	return ""
}

// problemReason returns the reason why a module is not resolved as requested, empty for a remark.
func problemReason(p bundle.Problem) v1beta2.Reason {
	if p.State != v1beta2.StateError && p.State != v1beta2.StateWarning {
		return ""
	}
	return known(p.Reason, reason.Problems)
}

// byModule collects the reasons of modules.
type byModule map[string]v1beta2.ModuleReasons

func (all byModule) add(name string, runtime, problem v1beta2.Reason) {
	if runtime != "" || problem != "" {
		before := all[name]
		all[name] = v1beta2.ModuleReasons{
			Name: name, Runtime: cmp.Or(before.Runtime, runtime), Problem: cmp.Or(before.Problem, problem),
		}
	}
}

func (all byModule) sorted() []v1beta2.ModuleReasons {
	return slices.SortedFunc(maps.Values(all), func(a, b v1beta2.ModuleReasons) int {
		return cmp.Compare(a.Name, b.Name)
	})
}
