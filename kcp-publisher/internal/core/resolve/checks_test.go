package resolve

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

var regularKeda = rollout.Track{Module: "keda", Channel: "regular"}

// checked adds a rollout that installs version 1.1.0 of keda with a check.
func (w *world) checked() *world {
	promoted(w).gated(rollout.Decision{Version: "1.1.0", Checks: 1})
	w.request.Checks = map[rollout.Track]rollout.WaveChecks{regularKeda: {
		Checks:   []fleet.Check{{Name: "works", CEL: &fleet.CELCheck{Expression: "true"}}},
		Duration: metav1.Duration{Duration: time.Hour},
	}}
	return w
}

func (w *world) encoded(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(w.resolve(t).State)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func checksOf(state bundle.DesiredState, module string) int {
	for _, m := range state.Manifests {
		if m.Module == module {
			return len(m.Checks)
		}
	}
	return 0
}

func TestChecksStayUntilTheVersionChanges(t *testing.T) {
	w := usualWorld().published(t).checked()
	output := w.encoded(t)
	if got := checksOf(w.published(t).resolve(t).State, "keda"); got != 1 {
		t.Fatalf("the promoted version has %d checks, want 1", got)
	}
	w.request.Gates, w.request.Checks = nil, nil // the rollout has ended or was deleted
	if again := w.encoded(t); again != output {
		t.Errorf("the bundle changed with the end of the rollout\nfrom %s\nto   %s", output, again)
	}
	w.published(t).gated(rollout.Decision{Version: "1.0.0", ReplacedVersion: "1.1.0", HeldReason: "undone"})
	if got := checksOf(w.resolve(t).State, "keda"); got != 0 {
		t.Errorf("the last good version has %d checks, want 0", got)
	}
}

func TestAgentWithoutSupportForChecksGetsNoChecks(t *testing.T) {
	w := usualWorld().published(t).checked()
	w.request.Unsupported = []bundle.Feature{bundle.FeatureChecks}
	result := w.resolve(t)
	if checksOf(result.State, "keda") != 0 || result.Versions["keda"] != "1.1.0" {
		t.Errorf("got manifests %+v, want keda 1.1.0 without checks", result.State.Manifests)
	}
}

func TestInvalidChecksKeepThePreviousVersion(t *testing.T) {
	w := usualWorld().published(t).checked()
	w.request.Checks[regularKeda].Checks[0].Name = "Works"
	result := w.resolve(t)
	problems := result.State.Problems
	if result.Versions["keda"] != "1.0.0" || len(problems) != 1 || problems[0].State != v1beta2.StateError {
		t.Errorf("got versions %v and problems %+v, want keda 1.0.0 and one error", result.Versions, problems)
	}
}
