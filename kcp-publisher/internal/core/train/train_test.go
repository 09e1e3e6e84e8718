package train

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

var inFast = rollout.Track{Module: module, Channel: "fast"}

func TestVersionIsPromotedOnlyIfAllConditionsAreMet(t *testing.T) {
	noon := func(day int) string { return time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC).Format(time.RFC3339) }
	for name, c := range map[string]struct {
		change  func(in *Input)
		channel string // channel of the checked version, or empty for fast
		reason  fleet.WaitReason
		message string
		arrival string
		due     bool
	}{
		"version that meets all conditions is due": {
			reason: fleet.WaitDue, due: true, message: "the publisher promotes the version next",
		},
		"version from a Git commit is promoted by command": {
			change: func(in *Input) {
				in.Metas[0].Annotations = map[string]string{v1beta2.AnnotationGitCommit: "e28bd21"}
			},
			reason: fleet.WaitDue, due: true, message: "kcp-publisher train promote train",
		},
		"version waits for its time in the channel": {
			change:  func(in *Input) { in.Policies[0].Status.Modules[0].Versions[1].Since = ago(6 * 24 * time.Hour) },
			reason:  fleet.WaitTimeNotReached,
			message: "the waiting time in channel fast ends at " + noon(24), arrival: noon(24),
		},
		"waiting time without a record starts now": {
			change: func(in *Input) { in.Policies[0].Status = fleet.PromotionPolicyStatus{} },
			reason: fleet.WaitTimeNotReached, arrival: noon(30),
		},
		"waiting time without a record starts at the end of the rollout": {
			change: func(in *Input) {
				in.Policies[0].Status = fleet.PromotionPolicyStatus{}
				in.Rollouts = []fleet.Rollout{
					rolloutOf("fast", "1.8.0", 3, fleet.RolloutSucceeded, ago(6*24*time.Hour)),
				}
			},
			reason: fleet.WaitTimeNotReached, arrival: noon(24),
		},
		"waiting time starts again after a later rollout": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 3, fleet.RolloutSucceeded, ago(24*time.Hour))}
			},
			reason: fleet.WaitTimeNotReached, arrival: noon(29),
		},
		"waiting time of a new version ignores an older rollout": {
			change: func(in *Input) {
				in.Policies[0].Status.Modules[0].Versions[1] = weekOld("fast", "1.7.5")
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 3, fleet.RolloutSucceeded, ago(3*week))}
			},
			reason: fleet.WaitTimeNotReached, arrival: noon(30),
		},
		"version waits for its rollout": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 3, fleet.RolloutProgressing, metav1.Time{})}
				in.Rollouts[0].Status.EstimatedEnd = &metav1.Time{Time: monday.Add(time.Hour)}
			},
			reason: fleet.WaitRolloutActive, message: "rollout keda-fast-3 is Progressing",
			arrival: "2026-11-30T13:00:00Z",
		},
		"overdue rollout has no arrival time": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 3, fleet.RolloutProgressing, metav1.Time{})}
				in.Rollouts[0].Status.EstimatedEnd = &metav1.Time{Time: monday.Add(-3 * week)}
			},
			reason: fleet.WaitRolloutActive, message: "rollout keda-fast-3 is Progressing",
		},
		"version waits for a rollout that does not exist yet": {
			change: func(in *Input) {
				in.RolloutPolicies = []fleet.RolloutPolicy{{Spec: fleet.RolloutPolicySpec{}}}
				in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 5, Behind: 1}
			},
			reason: fleet.WaitRolloutActive, message: "the rollout in channel fast has not started",
		},
		"version waits for its rollout after the rollout of an older version": {
			change: func(in *Input) {
				in.RolloutPolicies = []fleet.RolloutPolicy{{Spec: fleet.RolloutPolicySpec{}}}
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.7.0", 2, fleet.RolloutSucceeded, ago(3*week))}
				in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 5, Behind: 1}
			},
			reason: fleet.WaitRolloutActive, message: "the rollout in channel fast has not started",
		},
		"version does not wait for a runtime that is behind after its rollout": {
			change: func(in *Input) {
				in.RolloutPolicies = []fleet.RolloutPolicy{{Spec: fleet.RolloutPolicySpec{}}}
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 3, fleet.RolloutSucceeded, ago(2*week))}
				in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 5, Behind: 1}
			},
			reason: fleet.WaitDue, due: true,
		},
		"version rolled back in its channel is rejected": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 3, fleet.RolloutRolledBack, ago(time.Hour))}
			},
			reason: fleet.WaitRejected, message: "rollout keda-fast-3 in channel fast is RolledBack",
		},
		"version stopped in an earlier channel is rejected": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{rolloutOf("dev", "1.8.0", 3, fleet.RolloutStopped, ago(time.Hour))}
			},
			reason: fleet.WaitRejected,
		},
		"version rolled back in the next channel is rejected": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{rolloutOf("regular", "1.8.0", 3, fleet.RolloutRolledBack, ago(time.Hour))}
			},
			reason: fleet.WaitRejected,
		},
		"version rolled back in a channel outside the chain is rejected": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{
					rolloutOf("experimental", "1.8.0", 3, fleet.RolloutRolledBack, ago(time.Hour)),
				}
			},
			reason: fleet.WaitRejected, message: "rollout keda-experimental-3 in channel experimental is RolledBack",
		},
		"version is not blocked by an older version with too few runtimes after its waiting time": {
			change:  func(in *Input) { stuckInFast(in, week) },
			channel: "dev", reason: fleet.WaitDue, due: true,
		},
		"version waits for an older version with too few runtimes during its waiting time": {
			change:  func(in *Input) { stuckInFast(in, week-time.Hour) },
			channel: "dev", reason: fleet.WaitNextChannelBusy,
		},
		"version rejected by another policy is rejected": {
			change: func(in *Input) {
				other := policy()
				other.Name, other.Spec.Channels = "a-other", []fleet.TrainChannel{{Name: "regular"}, {Name: "lts"}}
				other.Status.Modules = []fleet.ModuleTrain{{Name: module, Rejected: []fleet.RejectedVersion{
					{Version: "1.8.0", Channel: "lts", Message: "channel lts was set back"},
				}}}
				in.Policies = append(in.Policies, other)
			},
			reason: fleet.WaitRejected, message: "channel lts was set back",
		},
		"version set back in a channel of another policy is rejected": {
			change: func(in *Input) {
				other := policy()
				other.Name, other.Spec.Channels = "a-other", []fleet.TrainChannel{{Name: "regular"}, {Name: "lts"}}
				other.Status.Modules = []fleet.ModuleTrain{{
					Name: module, Versions: []fleet.TrainVersion{weekOld("lts", "1.8.0")},
				}}
				in.Policies = append(in.Policies, other)
				in.Metas[0].Spec.Channels = append(in.Metas[0].Spec.Channels,
					v1beta2.ChannelVersion{Channel: "lts", Version: "1.6.0"})
			},
			reason: fleet.WaitRejected, message: "channel lts was set back from 1.8.0 to 1.6.0",
		},
		"version whose rollout is being undone is rejected": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 3, fleet.RolloutSucceeded, ago(week))}
				in.Rollouts[0].Spec.Undo = true
			},
			reason: fleet.WaitRejected,
		},
		"rejection is kept after the rollout was deleted": {
			change: func(in *Input) {
				in.Policies[0].Status.Modules[0].Rejected = []fleet.RejectedVersion{
					{Version: "1.8.0", Channel: "dev", Message: "rollout keda-dev-1 was undone"},
				}
			},
			reason: fleet.WaitRejected, message: "rollout keda-dev-1 was undone",
		},
		"version that was reverted in a channel is rejected": {
			change: func(in *Input) {
				in.Policies[0].Status.Modules[0].Versions[2].Version = "1.8.0"
			},
			reason: fleet.WaitRejected, message: "channel regular was set back from 1.8.0 to 1.7.0",
		},
		"successful retry does not clear a rejection": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{
					rolloutOf("fast", "1.8.0", 3, fleet.RolloutRolledBack, ago(3*week)),
					rolloutOf("fast", "1.8.0", 4, fleet.RolloutSucceeded, ago(2*week)),
				}
			},
			reason: fleet.WaitRejected,
		},
		"newer version in the next channel blocks the promotion": {
			change: func(in *Input) { in.Metas[0] = metaOf("1.8.0", "1.8.0", "1.8.1") },
			reason: fleet.WaitNotNewer, message: "channel regular has 1.8.1",
		},
		"next channel without a version blocks the promotion": {
			change: func(in *Input) { in.Metas[0] = metaOf("1.8.0", "1.8.0", "") },
			reason: fleet.WaitChannelMissing, message: "add the first one to ModuleReleaseMeta keda",
		},
		"version without a ModuleTemplate waits": {
			change: func(in *Input) { in.Templates = in.Templates[:1] },
			reason: fleet.WaitTemplateMissing,
		},
		"held version waits": {
			change: func(in *Input) {
				in.Templates[1].Annotations = map[string]string{v1beta2.AnnotationHoldPromotion: "the audit"}
			},
			reason: fleet.WaitVersionHeld, message: "ModuleTemplate keda-1.8.0 holds the version: the audit",
		},
		"version with a hold label waits": {
			change: func(in *Input) {
				in.Templates[1].Labels = map[string]string{v1beta2.LabelHoldPromotion: "audit"}
			},
			reason:  fleet.WaitVersionHeld,
			message: "ModuleTemplate keda-1.8.0 holds the version: label kyma-pull.dev/hold-promotion=audit",
		},
		"message of a version with a hold label and annotation contains the annotation": {
			change: func(in *Input) {
				in.Templates[1].Labels = map[string]string{v1beta2.LabelHoldPromotion: "true"}
				in.Templates[1].Annotations = map[string]string{v1beta2.AnnotationHoldPromotion: "the audit"}
			},
			reason: fleet.WaitVersionHeld, message: "ModuleTemplate keda-1.8.0 holds the version: the audit",
		},
		"held policy promotes nothing": {
			change: func(in *Input) { in.Policies[0].Spec.Hold = true },
			reason: fleet.WaitPolicyHeld, message: "spec.hold is set",
		},
		"policy with an invalid calendar promotes nothing": {
			change: func(in *Input) {
				in.Policies[0].Spec.Calendar = &fleet.PromotionCalendar{TimeZone: "Europe/Atlantis"}
			},
			reason: fleet.WaitPolicyHeld, message: `spec.calendar.timeZone: "Europe/Atlantis" is not a time zone`,
		},
		"only the first policy by name promotes": {
			change: func(in *Input) {
				other := policy()
				other.Name, other.Spec.Modules = "a-train", nil
				in.Policies = append(in.Policies, other)
			},
			reason: fleet.WaitOtherPolicy, message: "policy a-train promotes the module to channel regular",
		},
		"version waits while not all runtimes are known": {
			change: func(in *Input) { in.Fleet = nil },
			reason: fleet.WaitFleetUnknown,
		},
		"version waits while the counts are about another version": {
			change: func(in *Input) { in.Fleet[inFast] = Counts{Version: "1.7.0", Ready: 9} },
			reason: fleet.WaitFleetUnknown,
		},
		"version waits in a channel without runtimes": {
			change:  func(in *Input) { delete(in.Fleet, inFast) },
			reason:  fleet.WaitTooFewRuntimes,
			message: "0 runtimes in channel fast are ready with the version, minRuntimes is 3",
		},
		"version with more failures than maxFailurePercent": {
			change: func(in *Input) { in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 8, Failed: 1} },
			reason: fleet.WaitTooManyFailures, message: "1 of 9 runtimes failed, maxFailurePercent is 10",
		},
		"version with as many failures as maxFailurePercent allows": {
			change: func(in *Input) { in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 9, Failed: 1} },
			reason: fleet.WaitDue, due: true,
		},
		"version whose failed runtimes have recovered": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 3, fleet.RolloutSucceeded, ago(2*week))}
				in.Rollouts[0].Status.Failed = 2
			},
			reason: fleet.WaitTooManyFailures, message: "2 of 7 runtimes failed",
		},
		"version whose check failed in one runtime": {
			change: func(in *Input) {
				in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 99, Failed: 1, FailedChecks: 1}
			},
			reason: fleet.WaitCheckFailed, message: "checks failed in 1 runtimes in channel fast",
		},
		"version whose rollout recorded a failed check": {
			change: func(in *Input) {
				r := rolloutOf("fast", "1.8.0", 3, fleet.RolloutSucceeded, ago(2*week))
				r.Status.Waves = []fleet.WaveStatus{
					{Name: "canary", Checks: []fleet.CheckSummary{{Name: "latency", Passed: 99, Failed: 1}}},
				}
				in.Rollouts = []fleet.Rollout{r}
			},
			reason:  fleet.WaitCheckFailed,
			message: "rollout keda-fast-3: check latency failed in 1 runtimes in wave canary",
		},
		"failed check of another version is ignored": {
			change: func(in *Input) {
				r := rolloutOf("fast", "1.7.0", 3, fleet.RolloutSucceeded, ago(3*week))
				r.Status.Waves = []fleet.WaveStatus{
					{Name: "canary", Checks: []fleet.CheckSummary{{Name: "latency", Failed: 1}}},
				}
				in.Rollouts = []fleet.Rollout{r}
			},
			reason: fleet.WaitDue, due: true,
		},
		"active rollout in the next channel blocks the promotion": {
			change: func(in *Input) {
				in.Rollouts = []fleet.Rollout{rolloutOf("regular", "1.7.0", 3, fleet.RolloutWaiting, metav1.Time{})}
			},
			reason: fleet.WaitNextChannelBusy, message: "rollout keda-regular-3 in channel regular is Waiting",
		},
		"version waits until the next channel's version is promoted": {
			change: func(in *Input) {
				in.Metas[0], in.Fleet = metaOf("1.9.0", "1.8.0", "1.7.0"), ready(metaOf("1.9.0", "1.8.0", "1.7.0"), 5)
				in.Policies[0].Status.Modules[0].Versions[0] = weekOld("dev", "1.9.0")
				in.Policies[0].Status.Modules[0].Versions[1].Since = ago(6 * 24 * time.Hour)
			},
			channel: "dev", reason: fleet.WaitNextChannelBusy, arrival: noon(24),
			message: "channel fast has 1.8.0, which has not been promoted",
		},
		"version does not wait for a rejected version in the next channel": {
			change: func(in *Input) {
				in.Metas[0], in.Fleet = metaOf("1.9.0", "1.8.0", "1.7.0"), ready(metaOf("1.9.0", "1.8.0", "1.7.0"), 5)
				in.Policies[0].Status.Modules[0].Versions[0] = weekOld("dev", "1.9.0")
				in.Rollouts = []fleet.Rollout{rolloutOf("fast", "1.8.0", 3, fleet.RolloutRolledBack, ago(time.Hour))}
			},
			channel: "dev", reason: fleet.WaitDue, due: true,
		},
		"version is already in the next channel":  {channel: "dev", reason: fleet.WaitPromoted, due: true},
		"version has arrived in the last channel": {channel: "regular", reason: fleet.WaitArrived, due: true},
		"version waits on a day without promotions": {
			change: func(in *Input) {
				in.Policies[0].Spec.Calendar = &fleet.PromotionCalendar{
					TimeZone: "UTC", NotOn: []fleet.Weekday{"Mon", "Tue"},
				}
			},
			reason: fleet.WaitCalendarClosed, message: "no promotions on Mon in UTC", arrival: "2026-11-25T00:00:00Z",
		},
		"version waits for the end of a freeze in a time zone": {
			change: func(in *Input) {
				in.Policies[0].Spec.Calendar = freezeUntil("2026-11-23T14:00")
			},
			reason: fleet.WaitCalendarClosed, arrival: "2026-11-23T13:00:00Z",
			message: "freeze fair lasts until 2026-11-23T14:00:00+01:00",
		},
		"version is due after a freeze ended in its time zone": {
			change: func(in *Input) {
				in.Policies[0].Spec.Calendar = freezeUntil("2026-11-23T13:00")
			},
			reason: fleet.WaitDue, due: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := due()
			if c.change != nil {
				c.change(&in)
			}
			all := Plan(in)
			out := all[len(all)-1]
			channel := c.channel
			if channel == "" {
				channel = "fast"
			}
			got := entry(t, out, channel)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
				t.Errorf("channel %s: got %s %q, want %s %q", channel, got.Reason, got.Message, c.reason, c.message)
			}
			arrival := ""
			if got.Arrival != nil {
				arrival = got.Arrival.UTC().Format(time.RFC3339)
			}
			if arrival != c.arrival {
				t.Errorf("got arrival time %q, want %q", arrival, c.arrival)
			}
			if (len(out.Due) == 1) != c.due {
				t.Errorf("got due promotions %+v, want due %t", out.Due, c.due)
			}
		})
	}
}

func TestPolicyConditionNamesProblems(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *Input)
		status metav1.ConditionStatus
		reason string
		want   string
	}{
		"valid policy": {func(*Input) {}, metav1.ConditionTrue, fleet.PolicyEvaluated, "the policy is in effect"},
		"module that does not exist": {
			func(in *Input) { in.Policies[0].Spec.Modules = []string{module, "kedda"} },
			metav1.ConditionTrue, fleet.PolicyModulesMissing, "no ModuleReleaseMeta found for modules: kedda",
		},
		"module with two ModuleReleaseMetas": {
			func(in *Input) { in.Metas = append(in.Metas, in.Metas[0]) },
			metav1.ConditionFalse, fleet.PolicyInvalid, "module keda has 2 ModuleReleaseMetas",
		},
		"freeze with a date that does not exist": {
			func(in *Input) {
				in.Policies[0].Spec.Calendar = &fleet.PromotionCalendar{
					Freezes: []fleet.Freeze{{From: "2026-02-30", Until: "2026-03-01"}},
				}
			}, metav1.ConditionFalse, fleet.PolicyInvalid, "spec.calendar.freezes[0].from: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := due()
			c.change(&in)
			out := Plan(in)[0]
			got := meta.FindStatusCondition(out.Status.Conditions, fleet.ConditionReady)
			if got == nil || got.Status != c.status || got.Reason != c.reason ||
				!strings.Contains(got.Message, c.want) {
				t.Errorf("got condition %+v, want %s %s %q", got, c.status, c.reason, c.want)
			}
			if c.status == metav1.ConditionFalse && len(out.Due) > 0 {
				t.Errorf("invalid policy: got due promotions %+v, want none", out.Due)
			}
		})
	}
}

func TestPolicyWithoutModulesSelectsAllModulesOfItsChannels(t *testing.T) {
	in := due()
	in.Policies[0].Spec.Modules = nil
	other := v1beta2.ModuleReleaseMeta{
		Spec: v1beta2.ModuleReleaseMetaSpec{
			ModuleName: "mail",
			Channels:   []v1beta2.ChannelVersion{{Channel: "beta", Version: "1.0.0"}},
		},
	}
	in.Metas = append(in.Metas, other)
	out := Plan(in)[0]
	if len(out.Status.Modules) != 1 || out.Status.Modules[0].Name != module {
		t.Errorf("got modules %+v, want only %s", out.Status.Modules, module)
	}
}

func TestPromotedVersionIsRejectedAfterChannelWasReverted(t *testing.T) {
	in := due()
	out := Plan(in)[0]
	out.Record(out.Due[0], monday)
	if got := entry(t, out, "regular"); got.Version != "1.8.0" || got.Reason != fleet.WaitArrived ||
		!got.Since.Equal(&metav1.Time{Time: monday}) {
		t.Errorf("channel regular: got %+v, want 1.8.0 arrived", got)
	}
	if got := entry(t, out, "fast"); got.Reason != fleet.WaitPromoted || out.Status.LastPromotion == nil {
		t.Errorf("channel fast: got %+v and last promotion %v, want 1.8.0 promoted", got, out.Status.LastPromotion)
	}
	in.Policies[0].Status = out.Status // another tool has reverted the edit of the ModuleReleaseMeta
	again := Plan(in)[0]
	if got := entry(t, again, "fast"); got.Reason != fleet.WaitRejected || len(again.Due) > 0 {
		t.Errorf("reverted channel: got %+v and due promotions %+v, want 1.8.0 rejected", got, again.Due)
	}
}

func TestFailedPromotionSetsCondition(t *testing.T) {
	in := due()
	out := Plan(in)[0]
	out.Fail(out.Due[0], errors.New("forbidden"), monday)
	got := meta.FindStatusCondition(out.Status.Conditions, fleet.ConditionReady)
	if got.Reason != fleet.PolicyPromotionFailed ||
		!strings.Contains(got.Message, "promote module keda to 1.8.0 in channel regular: forbidden") {
		t.Errorf("got condition %+v, want PromotionFailed with the error", got)
	}
	first := got.LastTransitionTime
	in.Policies[0].Status, in.Now = out.Status, monday.Add(time.Hour)
	again := Plan(in)[0]
	again.Fail(again.Due[0], errors.New("forbidden"), in.Now)
	got = meta.FindStatusCondition(again.Status.Conditions, fleet.ConditionReady)
	if !got.LastTransitionTime.Equal(&first) {
		t.Errorf("after another failure: got transition time %s, want %s", got.LastTransitionTime, first)
	}
}

func TestRejectedVersionsAreBounded(t *testing.T) {
	in := due()
	for i := range 30 {
		in.Rollouts = append(in.Rollouts,
			rolloutOf("dev", "1.6."+string(rune('0'+i%10))+string(rune('0'+i/10)), int64(i+1), fleet.RolloutRolledBack,
				ago(week)))
	}
	in.Rollouts = append(in.Rollouts, rolloutOf("fast", "1.8.0", 1, fleet.RolloutRolledBack, ago(week)))
	rejected := Plan(in)[0].Status.Modules[0].Rejected
	if len(rejected) != maxRejected ||
		!slices.ContainsFunc(rejected, func(r fleet.RejectedVersion) bool { return r.Version == "1.8.0" }) {
		t.Errorf("got %d rejected versions, want %d with 1.8.0: %+v", len(rejected), maxRejected, rejected)
	}
}

func TestPlanWithUnchangedInputDoesNotChangeStatus(t *testing.T) {
	in := due()
	in.Policies[0].Status.Modules[0].Versions[1].Since = ago(time.Hour)
	first := Plan(in)[0]
	in.Policies[0].Status = first.Status
	in.Now = in.Now.Add(time.Minute)
	second := Plan(in)[0]
	if a, b := entry(t, first, "fast"), entry(t, second, "fast"); a != b &&
		(a.Message != b.Message || !a.Arrival.Equal(b.Arrival)) {
		t.Errorf("the status changes without a change of the input:\n%+v\n%+v", a, b)
	}
	if second.Next.IsZero() {
		t.Error("the outcome has no time for the next evaluation")
	}
}
