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

func collectReasons(status v1beta2.KymaStatus) *v1beta2.RuntimeReasons {
	if status.Runtime == nil || status.Runtime.Reasons == nil {
		return &v1beta2.RuntimeReasons{}
	}
	return status.Runtime.Reasons.DeepCopy()
}

// nilIfEmpty returns nil for a healthy runtime, so that its status omits the field reasons.
func nilIfEmpty(why *v1beta2.RuntimeReasons) *v1beta2.RuntimeReasons {
	if cmp.Or(why.Publish, why.Secrets, why.Report, why.Bundle) == "" && len(why.Modules) == 0 {
		return nil
	}
	return why
}

func knownReason(r reason.Reason, list []reason.Reason) v1beta2.Reason {
	return v1beta2.Reason(cmp.Or(reason.Known(r, list), reason.Other))
}

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
	return knownReason(reason.Of(err), reason.Publishing)
}

// runtimeReason returns the reason that the runtime reports for a module in state Error or Warning, or for a module
// that waits for a maintenance window. For other modules it returns "", so that a changed reason does not cause a
// status update.
func runtimeReason(status v1beta2.ModuleStatus, r bundle.ReportedModule) v1beta2.Reason {
	switch {
	case status.State == v1beta2.StateError || status.State == v1beta2.StateWarning:
		return knownReason(r.Reason, reason.Modules)
	case status.Maintenance:
		return v1beta2.Reason(reason.Known(r.Reason, reason.Modules))
	}
	return ""
}

// problemReason returns the reason for a problem. It returns "" if the problem is only informational.
func problemReason(p bundle.Problem) v1beta2.Reason {
	if p.State != v1beta2.StateError && p.State != v1beta2.StateWarning {
		return ""
	}
	return knownReason(p.Reason, reason.Problems)
}

type reasonsByModule map[string]v1beta2.ModuleReasons

func (all reasonsByModule) addRuntime(name string, why v1beta2.Reason) {
	if why != "" {
		m := all[name]
		m.Name, m.Runtime = name, cmp.Or(m.Runtime, why)
		all[name] = m
	}
}

func (all reasonsByModule) addProblem(p bundle.Problem) {
	if why := problemReason(p); why != "" {
		m := all[p.Module]
		m.Name, m.Problem, m.Version = p.Module, cmp.Or(m.Problem, why), cmp.Or(m.Version, p.Version)
		all[p.Module] = m
	}
}

func (all reasonsByModule) sorted() []v1beta2.ModuleReasons {
	return slices.SortedFunc(maps.Values(all), func(a, b v1beta2.ModuleReasons) int {
		return cmp.Compare(a.Name, b.Name)
	})
}
