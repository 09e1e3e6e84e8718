package scenario

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// minChannelTime is the minimum time that a version must stay in a channel before it is promoted to the next channel.
const minChannelTime = 4 * time.Second

var trainKey = client.ObjectKey{Namespace: sample.Namespace, Name: "train"}

// threeChannels sets scaler's versions in the channels "dev", "fast" and "regular".
func threeChannels(t *testing.T, f *fleet.Fleet, dev, fast, regular string) {
	t.Helper()
	channels := []v1beta2.ChannelVersion{
		sample.Channel("dev", dev), sample.Channel("fast", fast), sample.Channel("regular", regular),
	}
	must(t, f.Release(t.Context(), "scaler", sample.Scaler("").Component(), channels...))
}

func trainPolicy() *v1alpha1.PromotionPolicy {
	after := &metav1.Duration{Duration: minChannelTime}
	return &v1alpha1.PromotionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "train"},
		Spec: v1alpha1.PromotionPolicySpec{
			Modules: []string{"scaler"},
			Channels: []v1alpha1.TrainChannel{
				{Name: "dev", After: after}, {Name: "fast", After: after}, {Name: "regular"},
			},
		},
	}
}

// changeTrain changes the PromotionPolicy's spec.
func changeTrain(t *testing.T, f *fleet.Fleet, change func(*v1alpha1.PromotionPolicySpec)) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		policy := &v1alpha1.PromotionPolicy{}
		if err := f.Control.Get(t.Context(), trainKey, policy); err != nil {
			return err
		}
		change(&policy.Spec)
		return f.Control.Update(t.Context(), policy)
	}))
}

// holdVersion annotates a version's ModuleTemplate, or removes the annotation.
func holdVersion(t *testing.T, f *fleet.Fleet, version, why string) {
	t.Helper()
	template := sample.Scaler(version).Template()
	value := fmt.Sprintf("%q", why)
	if why == "" {
		value = "null"
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, v1beta2.AnnotationHoldPromotion, value)
	must(t, f.Control.Patch(t.Context(), template, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// inTrain returns a channel's entry in the PromotionPolicy's status.
func inTrain(t *testing.T, f *fleet.Fleet, channel string) (v1alpha1.TrainVersion, string) {
	t.Helper()
	policy := &v1alpha1.PromotionPolicy{}
	if err := f.Control.Get(t.Context(), trainKey, policy); err != nil {
		return v1alpha1.TrainVersion{}, err.Error()
	}
	for _, m := range policy.Status.Modules {
		for _, v := range m.Versions {
			if v.Channel == channel {
				return v, fmt.Sprintf("%+v", policy.Status)
			}
		}
	}
	return v1alpha1.TrainVersion{}, fmt.Sprintf("%+v", policy.Status)
}

// untilTrain waits until the PromotionPolicy's status shows a version in a channel with the given reason.
func untilTrain(
	t *testing.T, f *fleet.Fleet, channel, version string, reason v1alpha1.WaitReason, message string,
) (found v1alpha1.TrainVersion) {
	t.Helper()
	until(
		t,
		90*time.Second,
		fmt.Sprintf("version %s in channel %s is %s", version, channel, reason),
		func() (bool, string) {
			var seen string
			found, seen = inTrain(t, f, channel)
			return found.Version == version && found.Reason == reason &&
				strings.Contains(found.Message, message), seen
		},
	)
	return found
}

func TestPromotionTrainStopsForFreezeHoldAndRollback(t *testing.T) {
	suite.Long(t) // the short suite runs TestTrainPromotesByCommits
	ctx := t.Context()
	f := startFleet(t, fleet.Options{PublisherRights: []string{"publisher.yaml", "promotions.yaml"}})
	must(t, f.Offer(ctx, sample.Scaler("1.7.0"), sample.Scaler("1.8.0"), sample.Scaler("1.9.0")))
	threeChannels(t, f, "1.7.0", "1.7.0", "1.7.0")
	runtimes := map[string]*fleet.Simulated{}
	for _, channel := range []string{"dev", "fast", "regular"} {
		s, err := f.Simulate(ctx, fleet.NewKyma(channel+"-one", channel, "scaler"))
		must(t, err)
		untilSettled(t, s, "1.7.0")
		runtimes[channel] = s
	}
	must(t, f.CreatePolicy(ctx, "scaler", v1alpha1.Course{
		Waves: []v1alpha1.Wave{
			{Name: "all", Percent: new(int32(100))},
		},
		OfflineAfter: metav1.Duration{Duration: 10 * time.Minute},
	}))
	policy := trainPolicy()
	now := time.Now().UTC()
	policy.Spec.Calendar = &v1alpha1.PromotionCalendar{Freezes: []v1alpha1.Freeze{
		{
			Name:  "audit",
			From:  now.AddDate(0, 0, -1).Format("2006-01-02"),
			Until: now.AddDate(0, 0, 2).Format("2006-01-02"),
		},
	}}
	must(t, f.Control.Create(ctx, policy))

	t.Run("API server refuses invalid policies", func(t *testing.T) { refuseTrains(t, f) })

	threeChannels(t, f, "1.8.0", "1.7.0", "1.7.0")
	t.Run("freeze stops promotions", func(t *testing.T) {
		frozen := untilTrain(t, f, "dev", "1.8.0", v1alpha1.WaitCalendarClosed, "freeze audit lasts until")
		if frozen.Arrival == nil ||
			frozen.Arrival.UTC().Format("2006-01-02") != policy.Spec.Calendar.Freezes[0].Until {
			t.Errorf("unexpected arrival time %v during a freeze", frozen.Arrival)
		}
		untilSettled(t, runtimes["dev"], "1.8.0")
		wantHistory(t, runtimes["fast"], "1.7.0")
	})
	t.Run("hold stops a version without changing bundles", func(t *testing.T) {
		_, before, _ := runtimes["dev"].Bundle()
		holdVersion(t, f, "1.8.0", "waits for the audit")
		changeTrain(t, f, func(spec *v1alpha1.PromotionPolicySpec) { spec.Calendar = nil })
		untilTrain(t, f, "dev", "1.8.0", v1alpha1.WaitVersionHeld, "holds the version: waits for the audit")
		if why := ask(t, f, "why", "fast-one", "scaler"); !strings.Contains(why,
			"train train: version 1.8.0 is in channel dev; VersionHeld") {
			t.Errorf("unexpected output of why:\n%s", why)
		}
		if status := ask(t, f, "train", "status", "train"); !strings.Contains(status, "VersionHeld") ||
			!strings.Contains(status, "waits for the audit") {
			t.Errorf("unexpected output of train status:\n%s", status)
		}
		if _, after, _ := runtimes["dev"].Bundle(); after != before {
			t.Errorf("the hold changed the bundle %s to %s", before, after)
		}
		wantHistory(t, runtimes["fast"], "1.7.0")
	})
	t.Run("released version reaches the last channel despite a restart", func(t *testing.T) {
		since := untilTrain(t, f, "dev", "1.8.0", v1alpha1.WaitVersionHeld, "").Since
		f.Publisher().Kill()
		must(t, f.StartPublisher())
		holdVersion(t, f, "1.8.0", "")
		if again := untilTrain(t, f, "dev", "1.8.0", v1alpha1.WaitPromoted, "").Since; !again.Equal(&since) {
			t.Errorf("the version is in dev since %s, want the time before the restart, %s", again, since)
		}
		untilTrain(t, f, "regular", "1.8.0", v1alpha1.WaitArrived, "")
		untilSettled(t, runtimes["regular"], "1.8.0")
		untilPromotionEvents(t, f, "fast", "regular")
		wantMinChannelTime(t, f)
	})
	t.Run("rolled back version is not promoted", func(t *testing.T) {
		runtimes["fast"].BreakWith("1.9.0")
		threeChannels(t, f, "1.9.0", "1.8.0", "1.8.0")
		untilTrain(t, f, "fast", "1.9.0", v1alpha1.WaitRejected, "rollout scaler-fast-2 in channel fast is Roll")
		must(t, f.UntilRollout(ctx, "scaler-fast-2", "the rollback ends", rolledOut(v1alpha1.RolloutRolledBack)))
		until(t, time.Minute, "twice the stopover of 1.9.0 in fast has passed", func() (bool, string) {
			entry, seen := inTrain(t, f, "fast")
			return time.Since(entry.Since.Time) > 2*minChannelTime, seen
		})
		untilTrain(t, f, "fast", "1.9.0", v1alpha1.WaitRejected, "")
		wantHistory(t, runtimes["regular"], "1.7.0", "1.8.0")
		if status := ask(t, f, "train", "status"); !strings.Contains(status, "Rejected") ||
			!strings.Contains(status, "scaler-fast-2") {
			t.Errorf("unexpected output of train status:\n%s", status)
		}
	})
	t.Run("version without a next channel needs an operator", func(t *testing.T) { blockTrain(t, f) })
}

// refuseTrains checks that the API server refuses invalid PromotionPolicies.
func refuseTrains(t *testing.T, f *fleet.Fleet) {
	for want, change := range map[string]func(*v1alpha1.PromotionPolicySpec){
		"only the last can omit after": func(s *v1alpha1.PromotionPolicySpec) { s.Channels[0].After = nil },
		"after: not for the last channel": func(s *v1alpha1.PromotionPolicySpec) {
			s.Channels[2].After = s.Channels[0].After
		},
		"must be more than 0": func(s *v1alpha1.PromotionPolicySpec) {
			s.Channels[0].After = &metav1.Duration{}
		},
		"should have at least 2 items": func(s *v1alpha1.PromotionPolicySpec) { s.Channels = s.Channels[2:] },
		"spec.calendar.timeZone": func(s *v1alpha1.PromotionPolicySpec) {
			s.Calendar = &v1alpha1.PromotionCalendar{TimeZone: "Europe/Atlantis"}
		},
		"until must be after from": func(s *v1alpha1.PromotionPolicySpec) {
			s.Calendar = &v1alpha1.PromotionCalendar{Freezes: []v1alpha1.Freeze{
				{Name: "odd", From: "2026-12-02", Until: "2026-12-01T10:00"},
			}}
		},
		"spec.calendar.freezes[0]: Invalid value": func(s *v1alpha1.PromotionPolicySpec) {
			s.Calendar = &v1alpha1.PromotionCalendar{Freezes: []v1alpha1.Freeze{
				{Name: "same", From: "2026-12-02T10:00", Until: "2026-12-02T10:00:00"},
			}}
		},
	} {
		policy := trainPolicy()
		policy.Name = "refused"
		change(&policy.Spec)
		if err := f.Control.Create(t.Context(), policy, client.DryRunAll); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// untilPromotionEvents waits for an Event about the promotion to each channel.
func untilPromotionEvents(t *testing.T, f *fleet.Fleet, channels ...string) {
	t.Helper()
	until(t, time.Minute, fmt.Sprintf("Events about promotions to %v", channels), func() (bool, string) {
		var all eventsv1.EventList
		if err := f.Control.List(t.Context(), &all, client.InNamespace(sample.Namespace)); err != nil {
			return false, err.Error()
		}
		found := map[string]int{}
		for _, e := range all.Items {
			for _, channel := range channels {
				if e.Reason == v1alpha1.PolicyVersionPromoted &&
					strings.Contains(e.Note, "to 1.8.0 in channel "+channel+",") {
					found[e.Regarding.Kind+" "+channel]++
				}
			}
		}
		for _, channel := range channels {
			if found["PromotionPolicy "+channel] != 1 || found["ModuleReleaseMeta "+channel] != 1 {
				return false, fmt.Sprint(found)
			}
		}
		return true, ""
	})
}

// wantMinChannelTime checks that version 1.8.0 stayed in each channel for the minimum time.
func wantMinChannelTime(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	for _, step := range [][2]string{{"scaler-dev-1", "scaler-fast-1"}, {"scaler-fast-1", "scaler-regular-1"}} {
		from, err := f.Rollout(t.Context(), step[0])
		must(t, err)
		to, err := f.Rollout(t.Context(), step[1])
		must(t, err)
		if from.Status.FinishedAt == nil || to.Status.StartedAt == nil ||
			to.Status.StartedAt.Sub(from.Status.FinishedAt.Time) < minChannelTime {
			t.Errorf("rollout %s ended at %v and %s began at %v, want at least %s between them", step[0],
				from.Status.FinishedAt, step[1], to.Status.StartedAt, minChannelTime)
		}
	}
}

// The test follows docs/guides/promotion-trains.md with a fleet that follows a Git repository.
func TestTrainPromotesByCommits(t *testing.T) {
	ctx, repo := t.Context(), newRepository(t)
	files := catalogOf(t)
	files["fleet/releases/scaler.yaml"] = strings.Replace(files["fleet/releases/scaler.yaml"],
		"  - {channel: fast, version: 1.8.0}",
		"  - {channel: fast, version: 1.7.0}\n  - {channel: dev, version: 1.8.0}", 1)
	page := "docs/guides/promotion-trains.md"
	files["fleet/train.yaml"] = strings.NewReplacer("after: 24h", "after: 3s", "after: 168h", "after: 1000h",
		"notOn: [Fri, Sat, Sun]", "notOn: []", "    freezes:\n", "",
		"    - {name: new year, from: 2026-12-18T17:00, until: 2027-01-07}\n", "").
		Replace(yamlOf(t, page, "Define a train"))
	first := repo.push(files)
	f := startFollowing(t, repo.pageFlags())
	untilCommit(t, f, first)
	s, err := f.Simulate(ctx, fleet.NewKyma("dev-one", "dev", "scaler"))
	must(t, err)
	untilSettled(t, s, "1.8.0")
	untilTrain(t, f, "dev", "1.8.0", v1alpha1.WaitDue, "kcp-publisher train promote train")
	scripts := blocksOf(t, page, 3)
	sh := newPlainShell(t, f.Dir, f.Binaries(), "https://git.example/kyma/fleet.git", repo.url, "~/fleet-git",
		repo.credentials)
	sh.env = append(sh.env, "KUBECONFIG="+f.ControlKubeconfig())
	if status := sh.run(scripts[0]); !strings.Contains(status, "Due") {
		t.Errorf("unexpected output of train status:\n%s", status)
	}
	command := strings.TrimSpace(scripts[2])
	if output := sh.run(command + " --branch-prefix train/"); !strings.Contains(output,
		"on branch train/scaler-fast-1.8.0") {
		t.Errorf("unexpected output of train promote:\n%s", output)
	}
	output := sh.run(command + " --branch-prefix train/")
	if !strings.Contains(output, "the branch already contains the promotion") {
		t.Errorf("repeated command printed\n%s", output)
	}
	repo.git("push", "--quiet", "origin", "HEAD:refs/heads/stranger/scaler-fast-1.8.0")
	output = sh.run(command + " --branch-prefix stranger/ || echo exit code $?")
	if !strings.Contains(output, "is not only the promotion of module scaler to 1.8.0") ||
		!strings.Contains(output, "exit code 1") {
		t.Errorf("for a branch of someone else, the command printed\n%s", output)
	}
	hold := lines(scripts[1])
	annotateHold(t, f, sh, hold[0], "waits for the audit")
	if output := sh.run(command); !strings.Contains(output, "no promotion is due") {
		t.Errorf("for a held version, the command printed\n%s", output)
	}
	annotateHold(t, f, sh, hold[1], "")
	if output := sh.run(command); !strings.Contains(output,
		"promoted  scaler to 1.8.0 in channel fast, which had 1.7.0") {
		t.Errorf("unexpected output of train promote:\n%s", output)
	}
	repo.git("pull", "--quiet")
	untilCommit(t, f, repo.git("rev-parse", "HEAD"))
	untilTrain(t, f, "fast", "1.8.0", v1alpha1.WaitTooFewRuntimes, "minRuntimes is 20")
	if output := sh.run(command); !strings.Contains(output, "no promotion is due") {
		t.Errorf("after the promotion, the command printed\n%s", output)
	}
}

// annotateHold runs the documented kubectl command that starts or ends the hold on version 1.8.0. If kubectl is not
// installed, it writes the annotation itself.
func annotateHold(t *testing.T, f *fleet.Fleet, sh shell, command, why string) {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err == nil {
		sh.run(command)
		return
	}
	holdVersion(t, f, "1.8.0", why)
}
