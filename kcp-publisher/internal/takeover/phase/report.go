package phase

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// RecordReport records the reported phase of a runtime. It accepts only reports about the newest bundle: a report of an
// aborted takeover in the registry does not apply to the next one.
func RecordReport(r *v1beta2.RuntimeStatus, report bundle.Report) {
	t, reported := r.Takeover, report.Takeover
	if t == nil || reported == nil || string(reported.Phase) != t.Published || r.Published == nil ||
		report.Observed == nil ||
		report.Observed.Digest.String() != r.Published.Digest {
		return
	}
	t.Heard, t.Message = true, bundle.Bounded(reported.Message, bundle.MaxMessageBytes)
	for i := range t.Modules {
		if m := &t.Modules[i]; !m.Adopted && adopted(m, report) {
			m.Adopted, m.Objects = true, nil // they are in the inventory of the runtime's own Manifest
		}
	}
	if !reported.Done {
		return
	}
	t.Done = string(reported.Phase)
	for _, o := range reported.Removed {
		if name := bundle.Bounded(o.String(), bundle.MaxMessageBytes); !slices.Contains(t.Removed, name) &&
			len(t.Removed) < bundle.MaxRemovedReported {
			t.Removed = append(t.Removed, name)
		}
	}
}

// adopted reports whether a module is the agent's, in the version that lifecycle-manager installed or another one.
func adopted(m *v1beta2.InheritedModule, report bundle.Report) bool {
	if slices.Contains(report.Takeover.Adopted, m.Name) {
		return true
	}
	return len(m.Objects) == 0 && slices.ContainsFunc(report.Modules, func(r bundle.ReportedModule) bool {
		return r.Name == m.Name && r.Version != ""
	})
}

// Forget removes the takeover and lifecycle-manager's conditions from the status of a Kyma that was taken over.
func Forget(status *v1beta2.KymaStatus) {
	status.Runtime.Takeover = nil
	for _, kind := range v1beta2.LifecycleManagerConditions {
		meta.RemoveStatusCondition(&status.Conditions, kind)
	}
}
