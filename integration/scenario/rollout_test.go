package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

const firstRollout, secondRollout = "scaler-regular-1", "scaler-regular-2"

// stages is a course of canaries first, then all others.
func stages(change func(canaries, others *v1alpha1.Wave)) v1alpha1.Course {
	canaries := v1alpha1.Wave{Name: "canaries", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}}
	others := v1alpha1.Wave{Name: "others", Percent: new(int32(100))}
	if change != nil {
		change(&canaries, &others)
	}
	return v1alpha1.Course{Waves: []v1alpha1.Wave{canaries, others}, OfflineAfter: metav1.Duration{Duration: 8 * time.Second}}
}

// simulate adds canaries and others, and waits until all have scaler 1.7.0 and said so.
func simulate(t *testing.T, f *fleet.Fleet, canaries, others int) (c, o []*fleet.Simulated) {
	t.Helper()
	for i := range canaries + others {
		id, stage := fmt.Sprint("canary-", i), "canary"
		if i >= canaries {
			id, stage = fmt.Sprint("other-", i-canaries), "production"
		}
		kyma := fleet.NewKyma(id, "regular", "scaler")
		kyma.Labels["stage"] = stage
		s, err := f.Simulate(t.Context(), kyma)
		must(t, err)
		if i < canaries {
			c = append(c, s)
		} else {
			o = append(o, s)
		}
	}
	for _, s := range slices.Concat(c, o) {
		untilSettled(t, s, "1.7.0")
	}
	return c, o
}

// untilSettled waits until a runtime has a version and both sides agree that its newest bundle says so.
func untilSettled(t *testing.T, s *fleet.Simulated, version string) {
	t.Helper()
	until(t, 60*time.Second, fmt.Sprintf("%s has scaler %s and said so", s.ID, version), func() (bool, string) {
		kyma, err := s.Record(t.Context())
		if err != nil {
			return false, err.Error()
		}
		_, d, _ := s.Bundle()
		r := kyma.Status.Runtime
		m := moduleOf(kyma, "scaler")
		ok := s.Has("scaler") == version && r != nil && r.Published != nil && r.Published.Digest == d.String() && r.Published.KymaGeneration == 1 &&
			m.State == v1beta2.StateReady && m.Version == version && kyma.Status.State == v1beta2.StateReady
		return ok, fmt.Sprintf("has %s, trouble %v, control plane says %+v of %+v", s.Has("scaler"), s.Trouble(), m, r)
	})
}

func untilHeld(t *testing.T, s *fleet.Simulated, why string) {
	t.Helper()
	untilModule(t, s.ID+" says which gate holds it", func() (*v1beta2.Kyma, error) { return s.Record(t.Context()) }, "scaler", func(m v1beta2.ModuleStatus) bool {
		return m.State == v1beta2.StateReady && m.Version == "1.7.0" && m.Message == why
	})
}

func wantHistory(t *testing.T, s *fleet.Simulated, versions ...string) {
	t.Helper()
	want := make([]string, len(versions))
	for i, v := range versions {
		want[i] = "scaler " + v
	}
	if got := s.History(); !slices.Equal(got, want) {
		t.Errorf("%s had %v, want %v", s.ID, got, want)
	}
}

func ended(state v1alpha1.RolloutState) func(v1alpha1.RolloutStatus) bool {
	return func(s v1alpha1.RolloutStatus) bool { return s.State == state }
}

func TestACanaryStopsARolloutAndOnlyCanariesGoBack(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	canaries, others := simulate(t, f, 3, 9)
	must(t, f.Police(ctx, stages(nil)))
	canaries[1].BreakWith("1.8.0")
	_, _, before := others[0].Bundle()

	promote(t, f, "1.8.0")
	untilHeld(t, others[0], "rollout "+firstRollout+" holds version 1.8.0: wave others")
	must(t, f.UntilRollout(ctx, firstRollout, "it is rolled back", ended(v1alpha1.RolloutRolledBack)))
	for _, s := range canaries {
		untilSettled(t, s, "1.7.0")
		wantHistory(t, s, "1.7.0", "1.8.0", "1.7.0")
	}
	for _, s := range others {
		untilHeld(t, s, "rollout "+firstRollout+" took version 1.8.0 back")
		wantHistory(t, s, "1.7.0")
	}
	if _, _, after := others[0].Bundle(); after != before+1 {
		t.Errorf("%s followed %d bundles, want one: that the catalog changed", others[0].ID, after-before)
	}
	rollout, err := f.Rollout(ctx, firstRollout)
	must(t, err)
	s := rollout.Status
	if len(s.Failures) != 1 || s.Failures[0].Runtime != "canary-1" || !strings.Contains(s.Failures[0].Reason, "Deployment kyma-system/scaler cannot start") {
		t.Errorf("failures are %+v", s.Failures)
	}
	if s.Reverted != 3 || s.FinishedAt == nil || !strings.Contains(s.Message, "1 of 3 runtimes failed, 0 may") {
		t.Errorf("the rollout says %+v", s)
	}
	why, err := f.Why(ctx, "other-3", "scaler")
	if err != nil || !strings.Contains(why, "rollout "+firstRollout+" took version 1.8.0 back") {
		t.Errorf("why says %s, %v", why, err)
	}
}
