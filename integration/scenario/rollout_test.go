package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const firstRollout, secondRollout = "scaler-regular-1", "scaler-regular-2"

// soonOffline is a short value for OfflineAfter that is still longer than the report delays on a busy machine.
const soonOffline = 15 * time.Second

// stages returns rollout settings with a canary wave and a wave for all other runtimes. The function change can modify
// both waves. OfflineAfter is so long that no runtime counts as offline.
func stages(change func(canaries, others *v1alpha1.Wave)) v1alpha1.Course {
	canaries := v1alpha1.Wave{
		Name: "canaries", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}},
	}
	others := v1alpha1.Wave{Name: "others", Percent: new(int32(100))}
	if change != nil {
		change(&canaries, &others)
	}
	return v1alpha1.Course{
		Waves: []v1alpha1.Wave{canaries, others}, OfflineAfter: metav1.Duration{Duration: 10 * time.Minute},
	}
}

// simulate adds simulated runtimes and waits until all have reported scaler 1.7.0.
func simulate(t *testing.T, f *fleet.Fleet, canaries, others int) (c, o []*fleet.Simulated) {
	t.Helper()
	for i := range canaries + others {
		id, stage := fmt.Sprint("canary-", i), "canary"
		if i >= canaries {
			id, stage = fmt.Sprint("other-", i-canaries), "production"
		}
		kyma := fleet.NewKyma(f.Own(id), "regular", f.Own("scaler"))
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

// untilSettled waits until a runtime has this version of scaler and the control plane has recorded it.
func untilSettled(t *testing.T, s *fleet.Simulated, version string) {
	t.Helper()
	until(t, 60*time.Second, fmt.Sprintf("%s has and reports scaler %s", s.ID, version), func() (bool, string) {
		kyma, err := s.Record(t.Context())
		if err != nil {
			return false, err.Error()
		}
		_, d, _ := s.Bundle()
		r := kyma.Status.Runtime
		m := moduleOf(kyma, s.Own("scaler"))
		ok := s.Has(s.Own("scaler")) == version && r != nil && r.Published != nil && r.Published.Digest == d.String() &&
			r.Published.KymaGeneration == 1 &&
			m.State == v1beta2.StateReady && m.Version == version && kyma.Status.State == v1beta2.StateReady
		return ok, fmt.Sprintf("has %s, trouble %v, control plane reports %+v of %+v", s.Has(s.Own("scaler")), s.LastError(),
			m, r)
	})
}

// untilHeld waits until `kcp-publisher why` reports why a rollout keeps a runtime at version 1.7.0.
func untilHeld(t *testing.T, f *fleet.Fleet, s *fleet.Simulated, why string) {
	t.Helper()
	until(t, 60*time.Second, s.ID+" is held", func() (bool, string) {
		output, err := f.Why(t.Context(), s.ID, f.Own("scaler"))
		return err == nil && strings.Contains(output, "module "+f.Own("scaler")+" is Ready in version 1.7.0: "+why),
			fmt.Sprintf("%v\n%s", err, output)
	})
}

func wantHistory(t *testing.T, s *fleet.Simulated, versions ...string) {
	t.Helper()
	want := make([]string, len(versions))
	for i, v := range versions {
		want[i] = s.Own("scaler") + " " + v
	}
	if got := s.History(); !slices.Equal(got, want) {
		t.Errorf("%s had versions %v, want %v", s.ID, got, want)
	}
}

func rolledOut(state v1alpha1.RolloutState) func(v1alpha1.RolloutStatus) bool {
	return func(s v1alpha1.RolloutStatus) bool { return s.State == state }
}

func TestFailedCanaryRollsBackCanariesOnly(t *testing.T) {
	ctx := t.Context()
	posted, flags := eventsWebhook(t, "RolloutBegun", "RolloutRollingBack", "RolloutRolledBack", "Failed", "RolledBack")
	f := newFleet(t, fleet.Options{PublisherFlags: flags})
	canaries, others := simulate(t, f, 3, 9)
	must(t, f.CreatePolicy(ctx, "scaler", stages(nil)))
	canaries[1].BreakWith("1.8.0")
	_, _, before := others[0].Bundle()

	promote(t, f, "1.8.0")
	// The rollout may have ended already.
	untilHeld(t, f, others[0], "rollout "+firstRollout)
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout is rolled back", rolledOut(v1alpha1.RolloutRolledBack)))
	for _, s := range canaries {
		untilSettled(t, s, "1.7.0")
		wantHistory(t, s, "1.7.0", "1.8.0", "1.7.0")
	}
	for _, s := range others {
		wantHistory(t, s, "1.7.0")
	}
	if _, _, after := others[0].Bundle(); after != before {
		t.Errorf("%s was held but received %d bundles", others[0].ID, after-before)
	}
	rollout, err := f.Rollout(ctx, firstRollout)
	must(t, err)
	s := rollout.Status
	if len(s.Failures) != 1 || s.Failures[0].Runtime != "canary-1" ||
		!strings.Contains(s.Failures[0].Reason, "Deployment kyma-system/scaler cannot start") {
		t.Errorf("unexpected failures %+v", s.Failures)
	}
	if s.Reverted != 3 || s.FinishedAt == nil ||
		!strings.Contains(s.Message, "1 of 3 runtimes failed, maxFailures allows 0") {
		t.Errorf("unexpected rollout status %+v", s)
	}
	why, err := f.Why(ctx, "other-3", "scaler")
	if err != nil ||
		!strings.Contains(why, "rollout "+firstRollout+" was rolled back: no more runtimes get version 1.8.0") {
		t.Errorf("unexpected output of why: %s, error %v", why, err)
	}
	untilWhy(t, f, "RolloutWithdrawn", "other-3")
	untilWhy(t, f, "RolloutTookBack", "canary-1")

	posted.wantPosted(t, "info Rollout/"+firstRollout+" RolloutBegun", "error Rollout/"+firstRollout+
		" RolloutRollingBack",
		"info Rollout/"+firstRollout+" RolloutRolledBack", "error Kyma/canary-1 Failed",
		"error Kyma/canary-0 RolledBack", "error Kyma/canary-1 RolledBack", "error Kyma/canary-2 RolledBack")
	// If one module is broken, the runtime still applies a new version of another module, but does not become Ready.
	lame, err := f.Simulate(ctx, fleet.NewKyma("lame", "regular", "scaler", "mailer"))
	must(t, err)
	lame.BreakWith("1.7.0")
	untilEvents(t, f, lame.ID, "Failed")
	must(t, f.Offer(ctx, sample.Mailer("1.1.0")))
	must(t, f.Release(ctx, "mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.1.0")))
	untilEvents(t, f, lame.ID, "Applied")
	untilEvents(t, f, "canary-1", "Enrolled", "Published", "Ready", "Failed", "RolledBack")
}

func TestOfflineRuntimesDoNotBlockRollouts(t *testing.T) {
	suite.Long(t) // the short suite runs TestWaveWithDeferredRuntimesWaitsForApproval
	ctx := t.Context()
	f := shareFleet(t)
	canaries, others := simulate(t, f, 4, 4)
	course := stages(nil)
	course.OfflineAfter.Duration = soonOffline
	must(t, f.CreatePolicy(ctx, f.Own("scaler"), course))
	away := []*fleet.Simulated{canaries[0], others[2]}
	for _, s := range away {
		s.GoAway()
	}
	gone := time.Now()
	until(t, time.Minute, "both runtimes are silent for longer than soonOffline", func() (bool, string) {
		return time.Since(gone) > soonOffline+time.Second, time.Since(gone).String()
	})
	rollout := f.Own("scaler") + "-regular-1"
	promote(t, f, "1.8.0")
	must(t, f.UntilRollout(ctx, rollout, "the rollout succeeds without the offline runtimes",
		rolledOut(v1alpha1.RolloutSucceeded)))
	done, err := f.Rollout(ctx, rollout)
	must(t, err)
	for i, w := range done.Status.Waves {
		if w.Updated != 3 || w.Deferred != 1 || w.Failed != 0 {
			t.Errorf("wave %d ended with unexpected status %+v", i, w)
		}
	}
	for _, s := range away {
		s.ComeBack()
		untilSettled(t, s, "1.8.0")
	}
}

func TestWaveWaitsForApprovalAndPauseSurvivesRestart(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	canaries, others := simulate(t, f, 1, 4)
	witness, err := f.Simulate(ctx, fleet.NewKyma("witness", "regular", "mailer"))
	must(t, err)
	must(t, f.Offer(ctx, sample.Mailer("1.1.0")))
	must(t, f.CreatePolicy(ctx, "scaler", stages(func(_, others *v1alpha1.Wave) {
		others.Approval, others.MaxConcurrent = true, new(intstr.FromInt32(2))
	})))
	promote(t, f, "1.8.0")
	must(t, f.UntilRollout(ctx, firstRollout, "the canary is updated and the next wave waits for approval",
		func(s v1alpha1.RolloutStatus) bool {
			return s.State == v1alpha1.RolloutWaiting && s.Message == "wave others waits for its approval" &&
				s.Updated == 1
		}))
	untilSettled(t, canaries[0], "1.8.0")
	if output, err := f.Ask(ctx, "rollout", "approve", firstRollout, "canaries"); err == nil ||
		!strings.Contains(output, "waves that wait: others") {
		t.Errorf("approval of a wave that needs none printed %s, error %v", output, err)
	}
	ask(t, f, "rollout", "pause", firstRollout)
	ask(t, f, "rollout", "approve", firstRollout, "others")
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout is paused", rolledOut(v1alpha1.RolloutPaused)))
	f.Publisher().Kill()
	must(t, f.StartPublisher())
	// The arrival of a new version of mailer, which has no policy, proves that the restarted publisher works.
	must(t, f.Release(ctx, "mailer", sample.Mailer("").Component(), sample.Channel("regular", "1.1.0")))
	until(t, 60*time.Second, "the publisher publishes again", func() (bool, string) {
		return witness.Has("mailer") == "1.1.0", fmt.Sprint(witness.History())
	})
	for _, s := range others {
		wantHistory(t, s, "1.7.0")
	}
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout is still paused", rolledOut(v1alpha1.RolloutPaused)))
	ask(t, f, "rollout", "resume", firstRollout)
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	for _, s := range others {
		wantHistory(t, s, "1.7.0", "1.8.0")
	}
	if list := ask(t, f, "rollout", "list"); !strings.Contains(list, firstRollout) || !strings.Contains(list, "5/5") {
		t.Errorf("unexpected list output:\n%s", list)
	}
	for _, shown := range []string{ask(t, f, "rollout", "list", "-o", "yaml"),
		ask(t, f, "rollout", "show", firstRollout, "-o", "yaml")} {
		if !strings.Contains(shown, "name: "+firstRollout) || !strings.Contains(shown, "kind: Rollout") ||
			strings.Contains(shown, "managedFields") {
			t.Errorf("want the rollout with its kind and without managedFields, got\n%s", shown)
		}
	}
}

func TestNewerPromotionSupersedesOlderOne(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	must(t, f.Offer(ctx, scaler(f, "1.9.0")))
	older, newer := f.Own("scaler")+"-regular-1", f.Own("scaler")+"-regular-2"
	canaries, others := simulate(t, f, 2, 4)
	must(t, f.CreatePolicy(ctx, f.Own("scaler"), stages(func(_, others *v1alpha1.Wave) { others.Approval = true })))
	promote(t, f, "1.8.0")
	untilSettled(t, canaries[0], "1.8.0")
	untilSettled(t, canaries[1], "1.8.0")
	promote(t, f, "1.9.0")
	must(t, f.UntilRollout(ctx, older, "the older rollout is superseded", rolledOut(v1alpha1.RolloutSuperseded)))
	must(t, f.UntilRollout(ctx, newer, "the newer rollout's canaries are updated", rolledOut(v1alpha1.RolloutWaiting)))
	ask(t, f, "rollout", "approve", newer, "others")
	must(t, f.UntilRollout(ctx, newer, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	for _, s := range canaries {
		wantHistory(t, s, "1.7.0", "1.8.0", "1.9.0")
	}
	for _, s := range others {
		wantHistory(t, s, "1.7.0", "1.9.0")
	}
	second, err := f.Rollout(ctx, newer)
	must(t, err)
	if second.Spec.From != "1.7.0" {
		t.Errorf("the last good version is %s, want the original version", second.Spec.From)
	}
}

func TestUpgradeWaitsForWindowAndRollbackDoesNot(t *testing.T) {
	ctx := t.Context()
	// Versions 1.9.0 and 2.0.0 require downtime. Only runtimes with plan "calm" have a window before 2099.
	f := startFleetWithWindows(t)
	canaries, others := simulate(t, f, 1, 3)
	for _, s := range slices.Concat(canaries, others[:2]) {
		label(t, f, s, v1beta2.LabelPlan, "calm")
	}
	must(t, f.CreatePolicy(ctx, "scaler", stages(func(_, others *v1alpha1.Wave) {
		others.MaxDeferred = new(intstr.FromInt32(1))
	})))
	promote(t, f, "1.9.0")
	must(t, f.UntilRollout(ctx, firstRollout, "the rollout succeeds and one runtime waits for its window",
		func(s v1alpha1.RolloutStatus) bool {
			return s.State == v1alpha1.RolloutSucceeded && s.Updated == 3 && s.Deferred == 1
		}))
	wantHistory(t, others[2], "1.7.0")
	promote(t, f, "2.0.0")
	must(t, f.UntilRollout(ctx, secondRollout, "the second rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
	// Close these runtimes' window, so that an upgrade would have to wait.
	for _, s := range slices.Concat(canaries, others[:2]) {
		label(t, f, s, v1beta2.LabelPlan, "busy")
	}
	ask(t, f, "rollout", "undo", secondRollout)
	must(t, f.UntilRollout(ctx, secondRollout, "the second rollout is undone", rolledOut(v1alpha1.RolloutRolledBack)))
	for _, s := range slices.Concat(canaries, others[:2]) {
		wantHistory(t, s, "1.7.0", "1.9.0", "2.0.0", "1.9.0")
	}
	wantHistory(t, others[2], "1.7.0")
}

func ask(t *testing.T, f *fleet.Fleet, args ...string) string {
	t.Helper()
	output, err := f.Ask(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, output)
	}
	return output
}

func label(t *testing.T, f *fleet.Fleet, s *fleet.Simulated, key, value string) {
	t.Helper()
	kyma, err := s.Record(t.Context())
	must(t, err)
	before := kyma.DeepCopy()
	kyma.Labels[key] = value
	must(t, f.Control.Patch(t.Context(), kyma, client.MergeFrom(before)))
}
