package scenario

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// If a selector has a typo, or if the only canary loses its label, the other runtimes must not get the version.
func TestEmptyCanaryWaveHoldsTheVersion(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	rollout := f.Own("scaler") + "-regular-1"
	canaries, others := simulate(t, f, 1, 2)
	works := v1beta2.CheckOutcome{Name: "works", Result: v1beta2.CheckInconclusive, Message: "no data"}
	canaries[0].SetCheckOutcome(works)
	course := checkedStages()
	course.Waves[0].Selector.MatchLabels["stage"] = "canarry"
	must(t, f.CreatePolicy(ctx, f.Own("scaler"), course))
	promote(t, f, "1.8.0")
	const noCanary = "wave canaries selects no runtime: label runtimes"
	waits := func(s v1alpha1.RolloutStatus) bool {
		return s.State == v1alpha1.RolloutWaiting && strings.HasPrefix(s.Message, noCanary)
	}
	must(t, f.UntilRollout(ctx, rollout, "the rollout waits for a canary", waits))
	untilHeld(t, f, others[0], "rollout "+rollout)
	wantHistory(t, canaries[0], "1.7.0")

	label(t, f, canaries[0], "stage", "canarry")
	untilSettled(t, canaries[0], "1.8.0")
	label(t, f, canaries[0], "stage", "canary")
	must(t, f.UntilRollout(ctx, rollout, "the rollout waits after the canary lost its label", waits))
	untilHeld(t, f, others[0], "rollout "+rollout)
	for _, s := range others {
		wantHistory(t, s, "1.7.0")
	}

	works.Result, works.Message = v1beta2.CheckPassed, ""
	canaries[0].SetCheckOutcome(works)
	label(t, f, canaries[0], "stage", "canarry")
	must(t, f.UntilRollout(ctx, rollout, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	for _, s := range others {
		wantHistory(t, s, "1.7.0", "1.8.0")
	}
}

var manifestPath = regexp.MustCompile(`/runtimes/([^/]+)/manifests/`)

// The registry refuses the bundles for the first runtime that gets the version.
func TestUnpublishableRuntimeDoesNotStopTheRollout(t *testing.T) {
	suite.Long(t) // the short suite runs TestUnpublishableRuntimeStopsCountingTowardMaxConcurrent
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	_, runtimes := simulate(t, f, 0, 3)
	course := stages(nil)
	course.Waves = course.Waves[1:]
	course.Waves[0].MaxConcurrent = new(intstr.FromInt32(1))
	course.OfflineAfter.Duration = 5 * time.Second
	must(t, f.CreatePolicy(ctx, "scaler", course))
	var mu sync.Mutex
	refused := ""
	f.Registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		match := manifestPath.FindStringSubmatch(r.URL.Path)
		if match == nil || r.Method != http.MethodPut {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if refused == "" {
			refused = match[1]
		}
		if refused == match[1] {
			http.Error(w, `{"errors":[{"code":"DENIED"}]}`, http.StatusForbidden)
		}
		return refused == match[1]
	})
	promote(t, f, "1.8.0")
	must(t, f.UntilRollout(ctx, firstRollout, "all other runtimes are updated", func(s v1alpha1.RolloutStatus) bool {
		return s.Updated == 2
	}))
	f.Registry.Intercept(nil)
	for _, s := range runtimes {
		if s.ID == refused {
			wantHistory(t, s, "1.7.0")
		} else {
			untilSettled(t, s, "1.8.0")
		}
	}
	if refused == "" {
		t.Error("the registry did not refuse a bundle")
	}
}

// The second version fails while the first version's rollout soaks and one runtime is offline.
func TestFailedCanaryReturnsToTheSoakingVersion(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	must(t, f.Offer(ctx, scaler(f, "1.9.0")))
	older, newer := f.Own("scaler")+"-regular-1", f.Own("scaler")+"-regular-2"
	canaries, others := simulate(t, f, 1, 2)
	course := stages(func(_, others *v1alpha1.Wave) {
		others.Soak, others.MaxDeferred = metav1.Duration{Duration: time.Hour}, new(intstr.FromInt32(1))
	})
	course.OfflineAfter.Duration = 5 * time.Second
	must(t, f.CreatePolicy(ctx, f.Own("scaler"), course))
	others[1].GoAway()
	promote(t, f, "1.8.0")
	must(t, f.UntilRollout(ctx, older, "the last wave soaks", func(s v1alpha1.RolloutStatus) bool {
		return s.State == v1alpha1.RolloutProgressing && s.Updated == 2 && s.Deferred == 1 && s.Waves[1].ReadyAt != nil
	}))
	canaries[0].BreakWith("1.9.0")
	promote(t, f, "1.9.0")
	must(t, f.UntilRollout(ctx, newer, "the newer rollout is rolled back", rolledOut(v1alpha1.RolloutRolledBack)))
	untilSettled(t, canaries[0], "1.8.0")
	wantHistory(t, canaries[0], "1.7.0", "1.8.0", "1.9.0", "1.8.0")
	wantHistory(t, others[0], "1.7.0", "1.8.0")
	others[1].ComeBack()
	untilSettled(t, others[1], "1.8.0")
}

// The checks' values change during the soak, after the checks have passed.
func TestRolloutShowsTheValuesAtTheEndOfTheSoak(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	rollout := f.Own("scaler") + "-regular-1"
	canaries, others := simulate(t, f, 1, 1)
	measure := func(s *fleet.Simulated, value string) {
		s.SetCheckOutcome(v1beta2.CheckOutcome{Name: "works", Result: v1beta2.CheckPassed, Value: value, Before: "0.1"})
	}
	for _, s := range slices.Concat(canaries, others) {
		measure(s, "0.2")
	}
	course := checkedStages()
	course.Waves[1].Checks = course.Waves[0].Checks
	for i := range course.Waves {
		course.Waves[i].Soak.Duration = 5 * time.Second
	}
	must(t, f.CreatePolicy(ctx, f.Own("scaler"), course))
	promote(t, f, "1.8.0")
	untilWave := func(number int, state v1alpha1.WaveState, value string) {
		t.Helper()
		must(t, f.UntilRollout(ctx, rollout, "wave is "+string(state)+" with value "+value,
			func(s v1alpha1.RolloutStatus) bool {
				if len(s.Waves) <= number || s.Waves[number].State != state || len(s.Waves[number].Checks) == 0 {
					return false
				}
				c := s.Waves[number].Checks[0]
				return c.Median == value && c.Worst == value && c.MedianBefore == "0.1" && c.WorstBefore == "0.1"
			}))
	}
	untilWave(0, v1alpha1.WaveSoaking, "0.2")
	measure(canaries[0], "0.9")
	untilWave(0, v1alpha1.WaveProven, "0.9")
	measure(canaries[0], "0.3") // a measurement after the end of the wave
	untilWave(1, v1alpha1.WaveSoaking, "0.2")
	measure(others[0], "0.8")
	untilWave(1, v1alpha1.WaveProven, "0.8")
	untilWave(0, v1alpha1.WaveProven, "0.9")
	must(t, f.UntilRollout(ctx, rollout, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
}
