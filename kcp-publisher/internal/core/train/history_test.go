package train

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

var chainOf = []string{"dev", "fast", "regular"}

// history is a simulated control plane. It records all events, so that the test can check the promotions that Plan
// returns.
type history struct {
	t        *rapid.T
	policy   fleet.PromotionPolicy
	now      time.Time
	versions map[string]string    // by channel; empty if the channel's entry was removed
	last     map[string]string    // the last version of each channel
	changed  map[string]time.Time // the time at which each channel got its version
	rollouts []fleet.Rollout
	revision int64
	newest   int // minor version
	held     map[string]bool
	rejected map[string]bool
	counts   map[string]Counts
	// ran maps each channel to the time during which enough runtimes have run the channel's version.
	ran      map[string]time.Duration
	unknown  bool
	promoted int
	// replaced is a policy that is being deleted, because h.policy replaces it.
	replaced *fleet.PromotionPolicy
}

func newHistory(t *rapid.T) *history {
	h := &history{
		t:        t,
		policy:   policy(),
		now:      monday,
		versions: map[string]string{},
		last:     map[string]string{},
		changed:  map[string]time.Time{},
		held:     map[string]bool{},
		rejected: map[string]bool{},
		counts:   map[string]Counts{},
		ran:      map[string]time.Duration{},
	}
	h.policy.Spec.Calendar = &fleet.PromotionCalendar{
		TimeZone: "Europe/Berlin", NotOn: []fleet.Weekday{"Fri"},
		Freezes: []fleet.Freeze{{Name: "one", From: "2026-11-28", Until: "2027-01-10T12:00"}},
	}
	for _, c := range chainOf {
		h.versions[c], h.changed[c] = "1.0.0", h.now
		h.count(c, 5, 0)
	}
	return h
}

func (h *history) count(channel string, ready, failed int32) {
	h.counts[channel] = Counts{Version: h.versions[channel], Ready: ready, Failed: failed}
}

// set changes the version of a channel. It creates a rollout if the version is newer than the previous one.
func (h *history) set(channel, version string) {
	before := cmp.Or(h.versions[channel], h.last[channel])
	h.versions[channel], h.last[channel], h.changed[channel] = version, cmp.Or(version, before), h.now
	if bundle.IsOlder(version, before) {
		h.rejected[before] = true
	}
	for i := range h.rollouts {
		if r := &h.rollouts[i]; r.Spec.Channel == channel && !rollout.IsFinished(r.Status.State) {
			h.end(r, fleet.RolloutSuperseded)
		}
	}
	if bundle.IsOlder(before, version) {
		h.revision++
		h.rollouts = append(h.rollouts, rolloutOf(channel, version, h.revision, fleet.RolloutProgressing, roundUp(h.now)))
	}
	h.count(channel, 0, 0)
	h.ran[channel] = 0
}

func (h *history) end(r *fleet.Rollout, state fleet.RolloutState) {
	r.Status.State, r.Status.FinishedAt = state, new(roundUp(h.now))
	if state == fleet.RolloutStopped || state == fleet.RolloutRolledBack {
		h.rejected[r.Spec.To] = true
	}
}

// Events that must happen more often are listed several times.
var (
	events = []string{
		"time", "time", "time", "time", "time", "time", "release", "finish", "finish", "finish", "finish", "finish",
		"back", "hold", "counts", "counts", "counts", "unknown", "forget", "remove", "elsewhere", "replace",
	}
	jumps = []time.Duration{
		700 * time.Millisecond, time.Hour, 23 * time.Hour, 24*time.Hour - time.Millisecond, 24 * time.Hour,
		week - time.Millisecond, week, week + time.Second,
	}
)

func (h *history) step() {
	channel := rapid.SampledFrom(chainOf).Draw(h.t, "channel")
	switch rapid.SampledFrom(events).Draw(h.t, "event") {
	case "time":
		passed := rapid.SampledFrom(jumps).Draw(h.t, "time")
		for _, c := range h.policy.Spec.Channels {
			if h.counts[c.Name].Ready >= max(c.MinRuntimes, 1) {
				h.ran[c.Name] += passed
			}
		}
		h.now = h.now.Add(passed)
	case "release":
		if h.newest < 12 {
			h.newest++
			h.set("dev", fmt.Sprintf("1.%d.0", h.newest))
		}
	case "finish":
		for i := range h.rollouts {
			if r := &h.rollouts[i]; r.Spec.Channel == channel && !rollout.IsFinished(r.Status.State) {
				h.end(
					r,
					rapid.SampledFrom(
						[]fleet.RolloutState{
							fleet.RolloutSucceeded,
							fleet.RolloutSucceeded,
							fleet.RolloutSucceeded,
							fleet.RolloutRolledBack,
							fleet.RolloutStopped,
						},
					).Draw(h.t, "state"),
				)
			}
		}
	case "back":
		if rapid.Bool().Draw(h.t, "back") {
			h.set(channel, "1.0.0")
		}
	case "remove":
		if rapid.Bool().Draw(h.t, "remove") {
			h.set(channel, "")
		}
	case "elsewhere": // a rollout in a channel outside the chain
		if version := h.versions[channel]; version != "" && rapid.IntRange(0, 3).Draw(h.t, "elsewhere") == 0 {
			h.revision++
			h.rollouts = append(h.rollouts,
				rolloutOf("experimental", version, h.revision, fleet.RolloutProgressing, roundUp(h.now)))
			h.end(&h.rollouts[len(h.rollouts)-1], fleet.RolloutRolledBack)
		}
	case "replace": // an operator renames the policy
		old := *h.policy.DeepCopy()
		for _, c := range chainOf {
			h.ran[c] = math.MaxInt64 / 2 // for the new policy, the end of the Rollout is the proof
		}
		old.DeletionTimestamp = &metav1.Time{Time: h.now}
		h.policy.Name, h.policy.Status, h.replaced = h.policy.Name+"-new", fleet.PromotionPolicyStatus{}, &old
	case "hold":
		version := h.versions[channel]
		h.held[version] = !h.held[version]
	case "counts":
		h.count(channel, rapid.Int32Range(0, 20).Draw(h.t, "ready"), rapid.Int32Range(0, 2).Draw(h.t, "failed")/2)
		counts := h.counts[channel]
		counts.FailedChecks = rapid.Int32Range(0, 9).Draw(h.t, "failed checks") / 9
		h.counts[channel] = counts
	case "unknown":
		h.unknown = !h.unknown
	case "forget":
		if len(h.rollouts) > 0 && rollout.IsFinished(h.rollouts[0].Status.State) {
			h.rollouts = h.rollouts[1:]
		}
	}
}

// plan evaluates the policy from the stored objects only, as after a restart of the publisher. It then checks and
// performs every promotion.
func (h *history) plan() {
	in := Input{
		Policies: []fleet.PromotionPolicy{h.policy},
		Rollouts: h.rollouts,
		Now:      h.now,
		Metas: []v1beta2.ModuleReleaseMeta{
			metaOf(h.versions["dev"], h.versions["fast"], h.versions["regular"]),
		},
	}
	for minor := range h.newest + 1 {
		t := template(fmt.Sprintf("1.%d.0", minor))
		if h.held[t.Spec.Version] {
			t.Annotations = map[string]string{v1beta2.AnnotationHoldPromotion: "wait"}
		}
		in.Templates = append(in.Templates, t)
	}
	if !h.unknown {
		in.Fleet = Fleet{}
		for _, c := range chainOf {
			in.Fleet[rollout.Track{Module: module, Channel: c}] = h.counts[c]
		}
	}
	if h.replaced != nil {
		in.Policies, h.replaced = append(in.Policies, *h.replaced), nil
	}
	out := Plan(in)[0]
	for _, p := range out.Due {
		h.check(p)
		out.Record(p, h.now)
		h.set(p.To, p.Version)
		h.promoted++
	}
	data, err := json.Marshal(out.Status)
	if err != nil {
		h.t.Fatal(err)
	}
	h.policy.Status = fleet.PromotionPolicyStatus{}
	if err := json.Unmarshal(data, &h.policy.Status); err != nil {
		h.t.Fatal(err)
	}
}

// check fails the test if a promotion violates a rule.
func (h *history) check(p Promotion) {
	from := -1
	for i, c := range chainOf {
		if c == p.From {
			from = i
		}
	}
	channel, counts := h.policy.Spec.Channels[from], h.counts[p.From]
	switch berlin := h.now.In(mustZone(h.t, "Europe/Berlin")); {
	case chainOf[from+1] != p.To || h.versions[p.From] != p.Version || h.versions[p.To] != p.PreviousVersion:
		h.t.Fatalf("promotion %+v does not follow the channels %v", p, h.versions)
	case h.now.Before(h.changed[p.From].Add(channel.After.Duration)):
		h.t.Fatalf("promotion %+v at %s is too early: channel %s has the version since %s", p, h.now, p.From,
			h.changed[p.From])
	case h.ran[p.From] < channel.After.Duration:
		h.t.Fatalf("promotion %+v at %s is too early: enough runtimes ran the version for %s", p, h.now, h.ran[p.From])
	case !bundle.IsOlder(p.PreviousVersion, p.Version):
		h.t.Fatalf("promotion %+v replaces a newer version", p)
	case h.rejected[p.Version]:
		h.t.Fatalf("promotion %+v has a version that was rolled back", p)
	case h.held[p.Version]:
		h.t.Fatalf("promotion %+v has a version that its ModuleTemplate holds", p)
	case h.unknown || counts.Version != p.Version || counts.Ready < channel.MinRuntimes ||
		counts.FailedChecks > 0 || counts.Failed*100 > channel.MaxFailurePercent*(counts.Ready+counts.Failed):
		h.t.Fatalf("promotion %+v is not proven by the counts %+v", p, counts)
	case berlin.Weekday() == time.Friday:
		h.t.Fatalf("promotion %+v at %s is on a Friday", p, berlin)
	case !berlin.Before(time.Date(2026, 11, 28, 0, 0, 0, 0, berlin.Location())) &&
		berlin.Before(time.Date(2027, 1, 10, 12, 0, 0, 0, berlin.Location())):
		h.t.Fatalf("promotion %+v at %s is in a freeze", p, berlin)
	}
	for _, r := range h.rollouts {
		if r.Spec.To != p.Version || r.Spec.Channel != p.From {
			continue
		}
		if !rollout.IsFinished(r.Status.State) || h.now.Before(r.Status.FinishedAt.Add(channel.After.Duration)) {
			h.t.Fatalf("promotion %+v at %s is too early after its rollout: %+v", p, h.now, r.Status)
		}
	}
}

func mustZone(t *rapid.T, name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// A version must not be promoted too early, in a freeze, to an older version, or after a rollback.
func TestRandomHistoriesPromoteOnlyProvenVersions(t *testing.T) {
	promoted := 0
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		h.plan()
		for range rapid.IntRange(60, 240).Draw(t, "steps") {
			h.step()
			h.plan()
		}
		promoted += h.promoted
	})
	if promoted == 0 {
		t.Error("no history promoted a version, so nothing was checked")
	}
	t.Logf("checked %d promotions", promoted)
}
