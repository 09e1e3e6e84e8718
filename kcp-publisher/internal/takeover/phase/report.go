package phase

import (
	"slices"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// RecordReport copies the completed takeover phase and the adopted modules from a report to the status r. It ignores a
// report that is not about the latest bundle.
func RecordReport(r *v1beta2.RuntimeStatus, report bundle.Report) {
	t, reported := r.Takeover, report.Takeover
	if t == nil || reported == nil || string(reported.Phase) != t.Published || r.Published == nil ||
		!report.HasApplied(digest.Digest(r.Published.Digest)) {
		return
	}
	t.Heard, t.Message = true, bundle.Bounded(reported.Message, bundle.MaxMessageBytes)
	for i := range t.Modules {
		if m := &t.Modules[i]; !m.Adopted && isAdopted(m, report) {
			m.Adopted, m.Objects = true, nil // from now on, the agent's Manifest lists the objects
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

// isAdopted reports whether the agent has adopted a module, according to a report. If no objects are recorded for the
// module, the module counts as adopted as soon as the agent reports any of its versions.
func isAdopted(m *v1beta2.InheritedModule, report bundle.Report) bool {
	if slices.Contains(report.Takeover.Adopted, m.Name) {
		return true
	}
	return len(m.Objects) == 0 && slices.ContainsFunc(report.Modules, func(r bundle.ReportedModule) bool {
		return r.Name == m.Name && r.Version != ""
	})
}

// ClearTakeover removes the takeover record and lifecycle-manager's conditions from a status.
func ClearTakeover(status *v1beta2.KymaStatus) {
	status.Runtime.Takeover = nil
	for _, kind := range v1beta2.LifecycleManagerConditions {
		meta.RemoveStatusCondition(&status.Conditions, kind)
	}
}
