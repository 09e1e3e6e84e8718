package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

// A backup contains an allowed removal that waits for its rollout. The removal was withdrawn after the backup, so the
// runtime's newest bundle contains the module.
func TestDecisionFromBackupDoesNotAllowARemoval(t *testing.T) {
	decided := func(decision v1beta2.RemovalDecision, at time.Time) *v1beta2.Kyma {
		kyma := enrolledKyma("one", "keda")
		kyma.Status.Runtime.Removals = []v1beta2.ModuleRemoval{
			{Module: "keda", Decision: decision, Time: metav1.NewTime(at)},
		}
		return &kyma
	}
	for name, c := range map[string]struct {
		kyma     *v1beta2.Kyma
		restored bool
		want     removal.Reason
		removes  bool
	}{
		"allowed before the newest bundle":  {decided(v1beta2.RemovalAllowed, noon), true, removal.Restored, false},
		"approved before the newest bundle": {decided(v1beta2.RemovalApproved, noon), true, removal.Restored, false},
		"approved after the newest bundle": {
			decided(v1beta2.RemovalApproved, noon.Add(2*time.Hour)), true, "", true,
		},
		"control plane was not restored": {decided(v1beta2.RemovalAllowed, noon), false, "", true},
	} {
		adopted := Adoption{LastBundle: lastWith(noon.Add(time.Hour).UnixMilli(), false, "keda"), MayKeep: true}
		recorded := &RecordedBundle{Epoch: 1, Sequence: noon.UnixMilli(), Versions: map[string]string{"keda": "1.0.0"}}
		if !c.restored {
			recorded.Sequence = adopted.LastBundle.Predicate.Sequence
		}
		removing := adopted.Removing(bundle.Predicate{Removals: []string{"keda"}},
			Runtime{ID: "one", IsInUse: true, RecordedBundle: recorded, IsRecordOutdated: c.restored})
		pending := CollectPending(c.kyma, removing, time.Time{})
		held := removal.DefaultLimits.Decide(removal.Fleet{Runtimes: 100, Pending: pending})
		if len(pending) != 1 || held[pending[0].Removal] != c.want {
			t.Errorf("%s: got %+v, held %v, want reason %q", name, pending, held, c.want)
			continue
		}
		verdict := RemovalDecision{}
		verdict.Decide(c.kyma, pending[0], c.want, c.want != "")
		if removes := len(verdict.RemovedModules) == 1; removes != c.removes {
			t.Errorf("%s: got decision %+v, want removal %t", name, verdict, c.removes)
		}
	}
}

// A Git comparison does not release the removal, because the runtime's request is unknown until its first report.
func TestGitComparisonKeepsUnenrolledRemovalsHeld(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Removals: []v1beta2.ModuleRemoval{{
		Module: "keda", Decision: v1beta2.RemovalHeld, Reason: string(removal.Restored), Time: metav1.NewTime(noon),
	}}}
	removing := NewRemovals{Modules: []string{"keda"}, Restored: []string{"keda"}}
	for _, unenrolled := range []bool{false, true} {
		removing.IsUnenrolled = unenrolled
		if p := CollectPending(kyma, removing, noon.Add(time.Hour))[0]; p.Restored != unenrolled {
			t.Errorf("unenrolled %t: got restored %t", unenrolled, p.Restored)
		}
	}
}
