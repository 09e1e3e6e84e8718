package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// checkedStages returns rollout settings with a check in the canary wave.
func checkedStages() v1alpha1.Course {
	return stages(func(canaries, _ *v1alpha1.Wave) {
		canaries.Checks = []v1alpha1.Check{{Name: "works", CEL: &v1alpha1.CELCheck{Expression: "true"}}}
	})
}

func TestFailedCheckRollsBackTheCanaryOnly(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	canaries, others := simulate(t, f, 1, 3)
	must(t, f.CreatePolicy(ctx, "scaler", checkedStages()))
	canaries[0].SetCheckOutcome(v1beta2.CheckOutcome{
		Name: "works", Result: v1beta2.CheckFailed, Value: "0.9", Before: "0.2", Message: "above 0.5",
	})
	promote(t, f, "1.8.0")
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout is rolled back", rolledOut(v1alpha1.RolloutRolledBack)))
	untilSettled(t, canaries[0], "1.7.0")
	wantHistory(t, canaries[0], "1.7.0", "1.8.0", "1.7.0")
	for _, s := range others {
		wantHistory(t, s, "1.7.0")
	}
	rollout, err := f.Rollout(ctx, firstRollout)
	must(t, err)
	const want = "maxFailures allows 0; check works failed in canary-0 (0.9, 0.2 before the upgrade)"
	if !strings.HasSuffix(rollout.Status.Message, want) {
		t.Errorf("got rollout message %q, want suffix %q", rollout.Status.Message, want)
	}
	const reason = "check works is Failed: 0.9, 0.2 before the upgrade: above 0.5"
	if shown := ask(t, f, "rollout", "show", firstRollout); !strings.Contains(shown, reason) {
		t.Errorf("unexpected output of rollout show:\n%s", shown)
	}
}

func TestWaveWaitsForInconclusiveChecks(t *testing.T) {
	suite.Long(t) // the short suite runs TestChecksDecideWhetherAWaveIsProven
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	canaries, others := simulate(t, f, 2, 2)
	must(t, f.CreatePolicy(ctx, "scaler", checkedStages()))
	old := canaries[1]
	isChecks := func(feature bundle.Feature) bool { return feature == bundle.FeatureChecks }
	old.SetFeatures(slices.DeleteFunc(bundle.AllFeatures(), isChecks)...)
	until(t, time.Minute, "the control plane reports the old agent", func() (bool, string) {
		kyma, err := old.Record(ctx)
		if err != nil || kyma.Status.Runtime.Observed == nil {
			return false, fmt.Sprint(err)
		}
		features := kyma.Status.Runtime.Observed.Features
		return len(features) > 0 && !slices.Contains(features, string(bundle.FeatureChecks)), fmt.Sprint(features)
	})
	canaries[0].SetCheckOutcome(v1beta2.CheckOutcome{Name: "works", Result: v1beta2.CheckInconclusive, Message: "no data"})
	promote(t, f, "1.8.0")
	untilSettled(t, canaries[0], "1.8.0")
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout measures one canary", func(s v1alpha1.RolloutStatus) bool {
		if len(s.Waves) == 0 || len(s.Waves[0].Checks) != 1 {
			return false
		}
		return s.Waves[0].InFlight == 1 && s.Waves[0].Updated == 0 && s.Waves[0].Checks[0].Inconclusive == 1
	}))
	canaries[0].SetCheckOutcome(v1beta2.CheckOutcome{Name: "works", Result: v1beta2.CheckPassed})
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout waits for an agent", func(s v1alpha1.RolloutStatus) bool {
		return s.State == v1alpha1.RolloutWaiting &&
			strings.Contains(s.Message, "checks are not Passed in canary-1 (its agent does not support checks)")
	}))
	const command = "kcp-publisher rollout approve " + firstRollout + " canaries"
	if shown := ask(t, f, "rollout", "show", firstRollout); !strings.Contains(shown, command) {
		t.Errorf("rollout show does not print %q:\n%s", command, shown)
	}
	if why, err := f.Why(ctx, others[0].ID, "scaler"); !strings.Contains(why, command) ||
		!strings.Contains(why, "in canary-1 (its agent does not support checks)") {
		t.Errorf("why does not print the cause and %q: %v\n%s", command, err, why)
	}
	for _, s := range append(others, old) {
		wantHistory(t, s, "1.7.0")
	}
	old.SetFeatures(bundle.AllFeatures()...)
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	for _, s := range slices.Concat(canaries, others) {
		untilSettled(t, s, "1.8.0")
	}
}
