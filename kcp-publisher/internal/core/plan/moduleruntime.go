package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// moduleRuntime returns the state of a module in a runtime, as recorded in the Kyma's status. The parameter last can
// contain a later report than the status.
func moduleRuntime(kyma *v1beta2.Kyma, id, module string, last silence.LastReport) rollout.Runtime {
	r := rollout.Runtime{ID: id, Labels: kyma.Labels}
	status := kyma.Status.Runtime
	if status == nil {
		return r
	}
	r.LastReport = last
	r.LacksChecks = status.Observed != nil && !slices.Contains(status.Observed.Features, string(bundle.FeatureChecks))
	if failing := publishFailureCondition(kyma); failing != nil {
		r.Unpublishable, r.UnpublishableSince = true, failing.LastTransitionTime.Time
	}
	if status.Published == nil {
		return r
	}
	r.Version = status.Published.Versions[module]
	if given, ok := status.Published.Given[module]; ok {
		r.Selection, r.State, r.IsCurrent = new(given), given.State, given.State != ""
	} else {
		r.State, r.IsCurrent = reportedState(status, kyma.Status.Modules, module)
	}
	for i := range kyma.Status.Modules {
		if m := &kyma.Status.Modules[i]; m.Name == module {
			r.Message, r.WaitsForWindow = m.Message, m.Maintenance
		}
	}
	r.UnresolvedVersion = unresolvedVersion(status, module)
	return r
}

// unresolvedVersion returns the requested version of a module if the publisher could not resolve this version for the
// runtime. Otherwise, it returns "".
func unresolvedVersion(status *v1beta2.RuntimeStatus, module string) string {
	if status.Reasons == nil {
		return ""
	}
	for i := range status.Reasons.Modules {
		if m := &status.Reasons.Modules[i]; m.Name == module {
			return m.Version
		}
	}
	return ""
}

// reportedState returns the reported state of a module whose version was not selected by a rollout. current is true if
// the last report is about the latest bundle and contains the module in the published version.
func reportedState(
	status *v1beta2.RuntimeStatus, modules []v1beta2.ModuleStatus, module string,
) (state v1beta2.State, current bool) {
	version, published := status.Published.Versions[module]
	if !published || !status.HasAppliedNewest() {
		return "", false
	}
	for i := range modules {
		if m := &modules[i]; m.Name == module && m.Version == version {
			return m.State, true
		}
	}
	return "", false
}

// publishFailureCondition returns the Kyma's condition Ready if its reason is a failure to publish. Otherwise, it
// returns nil.
func publishFailureCondition(kyma *v1beta2.Kyma) *metav1.Condition {
	ready := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReady)
	if ready == nil || ready.Reason != v1beta2.ReasonPublishFailed {
		return nil
	}
	return ready
}
