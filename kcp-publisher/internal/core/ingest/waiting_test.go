package ingest

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// The latest bundle changes settings of the module, such as its checks, and the runtime has not reported it yet. If the
// module did not count as waiting for its window, the deadline of a rollout's wave would have passed.
func TestModuleWaitsForItsWindowUntilTheNextReport(t *testing.T) {
	s := healthy().with(waitingForWindow)
	waits := func(what string, want bool) v1beta2.KymaStatus {
		t.Helper()
		status := s.status()
		for _, m := range status.Modules {
			if m.Name == "mail" && m.Maintenance != want {
				t.Errorf("%s: waits for the window %t, want %t\n%s", what, m.Maintenance, want, outline(status))
			}
		}
		return status
	}
	s.before = waits("report about the latest bundle", true)
	s.facts.Published.Digest, s.facts.Published.Predicate.Sequence = digest.FromString("next"), 8
	s.before = waits("unreported bundle with the same version", true)
	s.before = waits("same bundle again", true)
	s.facts.Report.Observed.Digest, s.facts.Report.Observed.Sequence = s.facts.Published.Digest, 8
	s.facts.Report.Modules[1].Maintenance = false
	s.before = waits("report after the window has opened", false)

	s = healthy().with(waitingForWindow)
	s.before = s.status()
	s.facts.Published.Digest, s.facts.Published.Predicate.Sequence = digest.FromString("next"), 8
	s.facts.Published.State.Manifests[1].Version, s.facts.Published.Versions["mail"] = "2.0.0", "2.0.0"
	waits("unreported bundle with another version", false)
}
