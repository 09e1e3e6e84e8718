package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// A runtime that keeps the promoted version despite its rollback got the version from a later rollout. If the first
// rollout counted as its origin, the next evaluation would roll it back.
func TestKeptVersionIsNotSelectedByTheRollout(t *testing.T) {
	r := &fleet.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: "keda-regular-7"},
		Spec:       fleet.RolloutSpec{Module: "keda", Channel: "regular", From: "1.1.0", To: "1.2.0"},
	}
	step := Step{
		Status:    fleet.RolloutStatus{State: fleet.RolloutRolledBack},
		Decisions: []Decision{{Version: "1.1.0", ReplacedVersion: "1.2.0"}, {Version: "1.2.0"}},
	}
	gates := Gates{{Module: "keda", Channel: "regular"}: NewGate(r, step, []Runtime{{ID: "back"}, {ID: "granted"}})}
	for name, c := range map[string]struct {
		runtime, before, next string
		want                  bool
	}{
		"version granted by the rollout":    {"granted", "1.1.0", "1.2.0", true},
		"version rolled back":               {"back", "1.2.0", "1.1.0", true},
		"version kept despite the rollback": {"back", "1.1.0", "1.2.0", false},
		"version pushed before a crash":     {"new", "1.1.0", "1.2.0", true},
	} {
		manifests := []bundle.Manifest{{Module: "keda", Channel: "regular", Version: c.next}}
		before := &v1beta2.PublishedBundle{Versions: map[string]string{"keda": c.before}}
		if _, got := gates.SelectedVersions(c.runtime, manifests, before, time.Now())["keda"]; got != c.want {
			t.Errorf("%s: got selected %t, want %t", name, got, c.want)
		}
	}
}
