package train

import (
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// threeChannels is a control plane with the channels dev, fast and regular, and an injected clock.
type threeChannels struct {
	*testing.T
	in       Input
	now      time.Time
	versions [3]string // of dev, fast and regular
	revision int64
}

// set changes the version of a channel.
func (j *threeChannels) set(channel int, version string) { j.versions[channel] = version }

// until sets the clock, plans once and performs the due promotions. The version of the given channel must then wait for
// the given reason.
func (j *threeChannels) until(now time.Time, channel int, version string, reason fleet.WaitReason) fleet.TrainVersion {
	j.Helper()
	j.now = now
	j.in.Now, j.in.Metas = now, []v1beta2.ModuleReleaseMeta{metaOf(j.versions[0], j.versions[1], j.versions[2])}
	j.in.Fleet = ready(j.in.Metas[0], 5)
	out := Plan(j.in)[0]
	found := entry(j, out, chainOf[channel])
	for _, p := range out.Due {
		out.Record(p, now)
		for i, name := range chainOf {
			if name == p.To {
				j.set(i, p.Version)
			}
		}
	}
	j.in.Policies[0].Status = out.Status
	if found.Version != version || found.Reason != reason {
		j.Fatalf("%s: channel %s has %s, %s: %s; want %s, %s", now, chainOf[channel], found.Version, found.Reason,
			found.Message, version, reason)
	}
	return found
}

// rollout adds an ended rollout of a channel's version, in the given state.
func (j *threeChannels) rollout(channel int, state fleet.RolloutState) {
	j.revision++
	j.in.Rollouts = append(j.in.Rollouts,
		rolloutOf(chainOf[channel], j.versions[channel], j.revision, state, roundUp(j.now)))
}

func TestVersionIsPromotedThroughThreeChannels(t *testing.T) {
	const dev, fast, regular = 0, 1, 2
	p := policy()
	p.Spec.Calendar = &fleet.PromotionCalendar{
		TimeZone: "Europe/Berlin", NotOn: []fleet.Weekday{"Fri"},
		Freezes: []fleet.Freeze{{Name: "audit", From: "2026-12-01", Until: "2026-12-03"}},
	}
	j := &threeChannels{T: t, versions: [3]string{"1.7.0", "1.7.0", "1.7.0"}, in: Input{
		Policies: []fleet.PromotionPolicy{p}, Templates: []v1beta2.ModuleTemplate{
			template("1.7.0"), template("1.8.0"), template("1.9.0"), template("1.10.0"),
		},
	}}
	j.until(monday, dev, "1.7.0", fleet.WaitPromoted)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(day, hour int) time.Time { return time.Date(2026, 12, day, hour, 0, 0, 0, berlin) }

	// Version 1.8.0 is promoted to channel fast after a day. Its week in this channel ends during a freeze. After the
	// freeze, an annotation on its ModuleTemplate holds the version.
	j.set(dev, "1.8.0")
	arrival := j.until(monday.Add(time.Minute), dev, "1.8.0", fleet.WaitTimeNotReached).Arrival
	j.until(arrival.Time, dev, "1.8.0", fleet.WaitDue)
	j.until(arrival.Add(time.Minute), fast, "1.8.0", fleet.WaitTimeNotReached)
	j.rollout(fast, fleet.RolloutSucceeded)
	frozen := j.until(arrival.Add(week+time.Hour), fast, "1.8.0", fleet.WaitCalendarClosed)
	if frozen.Arrival == nil || !frozen.Arrival.Time.Equal(at(3, 0)) {
		t.Errorf("during the freeze, the arrival is %v, want %v", frozen.Arrival, at(3, 0))
	}
	j.in.Templates[1].Annotations = map[string]string{v1beta2.AnnotationHoldPromotion: "the audit"}
	j.until(at(3, 1), fast, "1.8.0", fleet.WaitVersionHeld)
	j.in.Templates[1].Annotations = nil
	j.until(at(4, 1), fast, "1.8.0", fleet.WaitCalendarClosed) // a Friday
	j.until(at(5, 1), fast, "1.8.0", fleet.WaitDue)
	j.until(at(5, 2), regular, "1.8.0", fleet.WaitArrived)
	j.rollout(regular, fleet.RolloutSucceeded)

	// Version 1.9.0 is rolled back in channel fast. It is never promoted to channel regular, even after an operator has
	// set channel fast back and forward again.
	j.set(dev, "1.9.0")
	j.until(at(7, 1), dev, "1.9.0", fleet.WaitTimeNotReached)
	j.until(at(8, 2), dev, "1.9.0", fleet.WaitDue)
	j.until(at(8, 3), fast, "1.9.0", fleet.WaitTimeNotReached)
	j.rollout(fast, fleet.RolloutRolledBack)
	j.until(at(20, 3), fast, "1.9.0", fleet.WaitRejected)
	j.set(fast, "1.8.0")
	j.until(at(20, 4), dev, "1.9.0", fleet.WaitRejected)
	j.set(fast, "1.9.0")
	j.in.Rollouts = nil
	j.until(at(30, 4), fast, "1.9.0", fleet.WaitRejected)

	// The corrected version 1.10.0 is promoted.
	j.set(dev, "1.10.0")
	j.until(at(30, 5), dev, "1.10.0", fleet.WaitTimeNotReached)
	j.until(at(31, 6), dev, "1.10.0", fleet.WaitDue)
	j.until(at(31, 7), fast, "1.10.0", fleet.WaitTimeNotReached)
	j.until(at(31, 8).Add(week), fast, "1.10.0", fleet.WaitDue)
	j.until(at(31, 9).Add(week), regular, "1.10.0", fleet.WaitArrived)
}
