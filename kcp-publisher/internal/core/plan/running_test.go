package plan

import (
	"maps"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestOnlyRefusedVersionsCanReturnToTheRunningOne(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1beta2.RuntimeStatus, *bundle.AcceptedReport)
		want   map[string]string
	}{
		"an upgrade that is refused": {
			func(*v1beta2.RuntimeStatus, *bundle.AcceptedReport) {}, map[string]string{"keda": "1.0.0"},
		},
		"the runtime reports an older one": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) { r.Observed.Digest = "sha256:old" }, nil,
		},
		"it reports none": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) { r.Observed = nil }, nil,
		},
		"nothing is remembered": {
			func(s *v1beta2.RuntimeStatus, _ *bundle.AcceptedReport) { s.Published = nil }, nil,
		},
		"an upgrade that is being applied": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) {
				r.Modules[0].State = v1beta2.StateProcessing
			}, nil,
		},
		"an upgrade that waits for a window": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) { r.Modules[0].Maintenance = true }, nil,
		},
		"a version that was applied": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) { r.Modules[0].Version = "2.0.0" }, nil,
		},
		"no version": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) { r.Modules[0].Version = "" }, nil,
		},
	} {
		status := &v1beta2.RuntimeStatus{
			Published: &v1beta2.PublishedBundle{
				Digest: "sha256:new", Versions: map[string]string{"keda": "2.0.0", "nats": "1.0.0"},
			},
		}
		report := &bundle.AcceptedReport{Report: bundle.Report{Observed: &bundle.Observed{Digest: "sha256:new"},
			Modules: []bundle.ReportedModule{
				{Name: "keda", Version: "1.0.0", State: v1beta2.StateError}, {
					Name: "nats", Version: "1.0.0", State: v1beta2.StateReady,
				},
			}}}
		c.change(status, report)
		if got := running(status, report); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if running(nil, nil) != nil {
		t.Error("for a runtime that never reported")
	}
}

// A runtime took 2.0.0 from an offer while it was cut off, the API server there refuses it, and 1.0.0 still runs. Its
// agent refuses every bundle with less than 2.0.0, until one with 2.0.0 is in force and 1.0.0 is gone back to by name.
func TestRefusedManifestSetsTheFloor(t *testing.T) {
	status := &v1beta2.RuntimeStatus{
		Published: &v1beta2.PublishedBundle{
			Digest: "sha256:one", Sequence: 1, Versions: map[string]string{"keda": "1.0.0"},
		},
	}
	report := &bundle.AcceptedReport{Report: bundle.Report{
		Decided: []string{"keda"}, Observed: &bundle.Observed{Digest: "sha256:one", Sequence: 1},
		Modules: []bundle.ReportedModule{{Name: "keda", Version: "1.0.0", Wanted: "2.0.0", State: v1beta2.StateError}},
	}}
	if got := grantedVersions(status, report); got["keda"] != "2.0.0" {
		t.Errorf("the floor is %v", got)
	}
	if got := running(status, report); len(got) != 0 {
		t.Errorf("goes back to %v of a bundle that never had more", got)
	}
	status.Published.Digest, status.Published.Versions["keda"], report.Decided = "sha256:two", "2.0.0", nil
	report.Observed.Digest = "sha256:two"
	if got := running(status, report); got["keda"] != "1.0.0" {
		t.Errorf("once 2.0.0 is in force, it may go back to %v", got)
	}
}
