package plan

import (
	"maps"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestRunningVersionIsRecordedAfterFailedUpgrade(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1beta2.RuntimeStatus, *bundle.AcceptedReport)
		want   map[string]string
	}{
		"upgrade failed": {
			func(*v1beta2.RuntimeStatus, *bundle.AcceptedReport) {}, map[string]string{"keda": "1.0.0"},
		},
		"report about an older bundle": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) { r.Observed.Digest = "sha256:old" }, nil,
		},
		"report without a bundle": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) { r.Observed = nil }, nil,
		},
		"no published bundle": {
			func(s *v1beta2.RuntimeStatus, _ *bundle.AcceptedReport) { s.Published = nil }, nil,
		},
		"upgrade in progress": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) {
				r.Modules[0].State = v1beta2.StateProcessing
			}, nil,
		},
		"upgrade waits for a maintenance window": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) { r.Modules[0].Maintenance = true }, nil,
		},
		"upgrade applied": {
			func(_ *v1beta2.RuntimeStatus, r *bundle.AcceptedReport) { r.Modules[0].Version = "2.0.0" }, nil,
		},
		"version unknown": {
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
		if got := runningVersions(status, report); !maps.Equal(got, c.want) {
			t.Errorf("%s: got running versions %v, want %v", name, got, c.want)
		}
	}
	if runningVersions(nil, nil) != nil {
		t.Error("a runtime that never reported has running versions")
	}
}

// While the runtime was offline, its admin chose 2.0.0. This version failed, and 1.0.0 still runs. The agent refuses
// every older version until it has applied a bundle with 2.0.0.
func TestMinimumVersionComesFromRefusedManifest(t *testing.T) {
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
		t.Errorf("got versions %v, want keda 2.0.0", got)
	}
	if got := runningVersions(status, report); len(got) != 0 {
		t.Errorf("got running versions %v for a bundle without an upgrade", got)
	}
	status.Published.Digest, status.Published.Versions["keda"], report.Decided = "sha256:two", "2.0.0", nil
	report.Observed.Digest = "sha256:two"
	if got := runningVersions(status, report); got["keda"] != "1.0.0" {
		t.Errorf("after the bundle with 2.0.0: got running versions %v, want keda 1.0.0", got)
	}
}
