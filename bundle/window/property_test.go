package window

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func drawMoment(t *rapid.T, label string) time.Time {
	return time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, label), 0).UTC()
}

func drawOffset(t *rapid.T) string {
	return fmt.Sprintf("%s%02d:%02d", rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign"),
		rapid.IntRange(0, 14).Draw(t, "hours"), rapid.SampledFrom([]int{0, 30, 45}).Draw(t, "minutes"))
}

func drawClock(t *rapid.T, label string) string {
	return fmt.Sprintf("%02d:%02d:%02d", rapid.IntRange(0, 23).Draw(t, label),
		rapid.SampledFrom([]int{0, 1, 30, 59}).Draw(t, label), rapid.SampledFrom([]int{0, 59}).Draw(t, label))
}

func drawWindow(t *rapid.T) Window {
	if rapid.Bool().Draw(t, "weekly") {
		days := rapid.SliceOfNDistinct(rapid.SampledFrom(dayNames[:]), 1, 7, rapid.ID).Draw(t, "days")
		offset := drawOffset(t)
		return Window{Days: days, Begin: drawClock(t, "begin") + offset, End: drawClock(t, "end") + offset}
	}
	begin := drawMoment(t, "begin")
	end := begin.Add(time.Duration(rapid.Int64Range(1, 100*3600).Draw(t, "length")) * time.Second)
	return Window{Begin: begin.Format(time.RFC3339), End: end.Format(time.RFC3339)}
}

func drawSchedule(t *rapid.T) Schedule {
	schedule := Schedule{
		Windows: rapid.SliceOfN(rapid.Custom(drawWindow), 0, 4).Draw(t, "windows"),
		Minimum: metav1.Duration{Duration: time.Duration(rapid.IntRange(0, 3).Draw(t, "minimum")) * 20 * time.Minute},
	}
	if rapid.Bool().Draw(t, "with default") {
		window := drawWindow(t)
		schedule.Default = &window
	}
	return schedule
}

func inside(t *rapid.T, w Window, now time.Time) bool {
	if len(w.Days) == 0 {
		begin, errBegin := time.Parse(time.RFC3339, w.Begin)
		end, errEnd := time.Parse(time.RFC3339, w.End)
		if errBegin != nil || errEnd != nil {
			t.Fatal(errBegin, errEnd)
		}
		return !now.Before(begin) && now.Before(end)
	}
	begin, errBegin := time.Parse("15:04:05-07:00", w.Begin)
	end, errEnd := time.Parse("15:04:05-07:00", w.End)
	if errBegin != nil || errEnd != nil {
		t.Fatal(errBegin, errEnd)
	}
	_, offset := begin.Zone()
	local := now.UTC().Add(time.Duration(offset) * time.Second)
	second := func(t time.Time) int { return t.Hour()*3600 + t.Minute()*60 + t.Second() }
	from, until, here := second(begin), second(end), second(local)
	on := func(day time.Weekday) bool {
		for _, name := range w.Days {
			if name == day.String()[:3] {
				return true
			}
		}
		return false
	}
	if from < until {
		return on(local.Weekday()) && here >= from && here < until
	}
	return on(local.Weekday()) && here >= from || on((local.Weekday()+6)%7) && here < until
}

func TestOpenWindowsMatchTheCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := Schedule{Windows: rapid.SliceOfN(rapid.Custom(drawWindow), 1, 4).Draw(t, "windows")}
		now := drawMoment(t, "now")
		if rapid.Bool().Draw(t, "at an edge") { // bugs are most likely at a window's edges
			if span, ok := schedule.Next(now); ok {
				now = rapid.SampledFrom([]time.Time{span.Begin, span.End, span.End.Add(-time.Second),
					span.Begin.Add(-time.Second)}).Draw(t, "edge")
			}
		}
		want := false
		for _, w := range schedule.Windows {
			want = want || inside(t, w, now)
		}
		span, ok := schedule.Next(now)
		if got := ok && span.Contains(now); got != want {
			t.Errorf("at %s: got open %t (%s), want %t as in the calendar", now, got, written(span, ok), want)
		}
	})
}

func TestNextWindowIsAheadAndLongEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule, now := drawSchedule(t), drawMoment(t, "now")
		if err := schedule.Check(); err != nil {
			t.Fatal(err)
		}
		span, ok := schedule.Next(now)
		if !ok {
			return
		}
		if !span.Begin.Before(span.End) || !span.End.After(now) {
			t.Errorf("at %s: got next window %s, want a window that ends later", now, written(span, ok))
		}
		start := span.Begin
		if now.After(start) {
			start = now
		}
		if left := span.End.Sub(start); left < schedule.Minimum.Duration {
			t.Errorf("at %s: only %s remain of %s, want %s", now, left, written(span, ok), schedule.Minimum.Duration)
		}
	})
}

func TestWindowIsOpenAtItsAnnouncedTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule, now := drawSchedule(t), drawMoment(t, "now")
		span, ok := schedule.Next(now)
		if !ok || span.Contains(now) {
			return
		}
		if then, ok := schedule.Next(span.Begin); !ok || !then.Contains(span.Begin) {
			t.Errorf("at %s: got next window at %s, want it open then, got %s", now, span.Begin, written(then, ok))
		}
	})
}

func TestWeeklyWindowRepeatsAfterAWeek(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.Custom(drawWindow).Filter(func(w Window) bool { return len(w.Days) > 0 }).Draw(t, "window")
		schedule, now := Schedule{Windows: []Window{window}}, drawMoment(t, "now")
		weeks := time.Duration(rapid.IntRange(1, 60).Draw(t, "weeks")) * 7 * day
		this, okThis := schedule.Next(now)
		that, okThat := schedule.Next(now.Add(weeks))
		if okThis != okThat || !this.Begin.Add(weeks).Equal(that.Begin) || !this.End.Add(weeks).Equal(that.End) {
			t.Errorf("at %s: got %s, want the same window %s later, got %s",
				now, written(this, okThis), weeks, written(that, okThat))
		}
	})
}

func TestNextWindowDoesNotDependOnTheTimeZone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule, now := drawSchedule(t), drawMoment(t, "now")
		zone := time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "zone"))
		here, okHere := schedule.Next(now)
		there, okThere := schedule.Next(now.In(zone))
		if written(here, okHere) != written(there, okThere) {
			t.Errorf("at %s: got %s in UTC and %s in %s, want the same window", now, written(here, okHere),
				written(there, okThere), zone)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`,
		`{"rules":[{"match":{"plan":"a|b"},"windows":[{"days":["Mon"],"begin":"01:00:00Z","end":"01:00:00Z"}]}],"default":{"begin":"2026-12-08T20:00:00Z","end":"2026-12-09T20:00:00Z"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		policy, err := Parse(data)
		if err != nil {
			return
		}
		if err := policy.For(Runtime{Plan: "a", Region: "b"}, time.Hour).Check(); err != nil {
			t.Errorf("accepted policy gives an invalid schedule: %v", err)
		}
	})
}
