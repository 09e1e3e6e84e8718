package train

import (
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // the container image does not contain a time zone database

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// calendar contains the times at which promotions are not allowed. The times are in a time zone with daylight saving
// time. Maintenance windows have a UTC offset instead.
type calendar struct {
	zone       *time.Location
	closedDays [7]bool
	freezes    []freeze
}

type freeze struct {
	name        string
	from, until time.Time
}

// newCalendar validates and converts the calendar of a PromotionPolicy. An error starts with the name of the invalid
// field.
func newCalendar(spec *fleet.PromotionCalendar) (*calendar, error) {
	c := &calendar{zone: time.UTC}
	if spec == nil {
		return c, nil
	}
	if spec.TimeZone != "" {
		zone, err := time.LoadLocation(spec.TimeZone)
		if err != nil || spec.TimeZone == "Local" {
			return c, fmt.Errorf("timeZone: %q is not a time zone", spec.TimeZone)
		}
		c.zone = zone
	}
	for _, day := range spec.NotOn {
		number := slices.Index(weekdays[:], day)
		if number < 0 {
			return c, fmt.Errorf("notOn: %q is not a day of the week", day)
		}
		c.closedDays[number] = true
	}
	if !slices.Contains(c.closedDays[:], false) {
		return c, fmt.Errorf("notOn excludes every day")
	}
	for i, f := range spec.Freezes {
		from, _, err := c.parseLocal(f.From)
		if err != nil {
			return c, fmt.Errorf("freezes[%d].from: %w", i, err)
		}
		_, until, err := c.parseLocal(f.Until)
		if err != nil {
			return c, fmt.Errorf("freezes[%d].until: %w", i, err)
		}
		if !until.After(from) {
			return c, fmt.Errorf("freezes[%d].until: %s: must be after from, %s", i, f.Until, f.From)
		}
		c.freezes = append(c.freezes, freeze{f.Name, from, until})
	}
	return c, nil
}

var weekdays = [...]fleet.Weekday{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// parseLocal parses a date or a local time in the calendar's time zone, and returns the results of localTimes.
func (c *calendar) parseLocal(text string) (first, last time.Time, err error) {
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if wall, err := time.Parse(layout, text); err == nil {
			first, last = c.localTimes(wall)
			return first, last, nil
		}
	}
	return first, last, fmt.Errorf("%q is not a date (2026-12-18) or a local time (2026-12-18T17:00)", text)
}

// localTimes returns the first and last time at which the clocks of the calendar's time zone show the date and time in
// wall. The two times differ in the hour that is repeated at the end of daylight saving time. If the clocks skip the
// time, for example at midnight in zones where daylight saving time begins at midnight, both are the end of the skipped
// period. time.Date alone could return a time on the day before.
func (c *calendar) localTimes(wall time.Time) (first, last time.Time) {
	inZone := func(location *time.Location, t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, location)
	}
	at := inZone(c.zone, wall)
	start, end := at.ZoneBounds()
	switch shown := inZone(time.UTC, at); {
	case shown.Before(wall):
		return end, end
	case shown.After(wall):
		return start, start
	}
	first, last = at, at
	_, offset := at.Zone()
	// If the offset never changes before or after this time, start or end is zero. The loop then does not change the
	// result.
	for _, neighbor := range []time.Time{start.Add(-time.Second), end} {
		_, other := neighbor.In(c.zone).Zone()
		again := at.Add(time.Duration(offset-other) * time.Second)
		if !inZone(time.UTC, again).Equal(wall) {
			continue
		}
		if again.Before(first) {
			first = again
		}
		if again.After(last) {
			last = again
		}
	}
	return first, last
}

// closedReason returns the reason why the calendar does not allow a promotion now, or "".
func (c *calendar) closedReason(now time.Time) string {
	for _, f := range c.freezes {
		if !now.Before(f.from) && now.Before(f.until) {
			return fmt.Sprintf("freeze %s lasts until %s", f.name, f.until.Format(time.RFC3339))
		}
	}
	if day := now.In(c.zone).Weekday(); c.closedDays[day] {
		return fmt.Sprintf("no promotions on %s in %s", weekdays[day], c.zone)
	}
	return ""
}

// maxSteps limits the search for an open time. It is sufficient for two steps per freeze and one step per closed day of
// a year.
const maxSteps = 500

// nextOpen returns the first time at which the calendar allows a promotion, or zero.
func (c *calendar) nextOpen(now time.Time) time.Time {
	at := now
	for range maxSteps {
		if c.closedReason(at) == "" {
			return at
		}
		for _, f := range c.freezes {
			if !at.Before(f.from) && at.Before(f.until) {
				at = f.until
			}
		}
		if local := at.In(c.zone); c.closedDays[local.Weekday()] {
			at, _ = c.localTimes(time.Date(local.Year(), local.Month(), local.Day()+1, 0, 0, 0, 0, time.UTC))
		}
	}
	return time.Time{}
}
