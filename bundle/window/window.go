// Package window computes when a runtime can be upgraded with downtime. The caller passes the current time.
//
// Windows have the same format as in Kyma. A window is weekly (days, and times of day with a UTC offset) or a span
// between two dates:
//
//	{"days": ["Sat"], "begin": "21:00:00+00:00", "end": "00:00:00+00:00"}
//	{"begin": "2026-12-08T20:00:00Z", "end": "2026-12-09T00:00:00Z"}
//
// A weekly window begins on each of its days. If its end time is not after its begin time, it ends on the next day.
//
// Source: github.com/kyma-project/lifecycle-manager, maintenancewindows/resolver. docs/guides/maintenance.md lists the
// differences.
package window

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Window is a maintenance window in Kyma's format.
type Window struct {
	// Days are the days of the week on which the window begins, "Mon" to "Sun", in the time zone of Begin. If Days is
	// empty, the window is a span between two dates.
	Days []string `json:"days,omitempty"`
	// Begin and End are times of day such as "21:00:00+02:00" if Days is set, and otherwise dates such as
	// "2026-12-08T20:00:00Z".
	Begin string `json:"begin"`
	End   string `json:"end"`
}

// Span is a period of time. It includes Begin and excludes End.
type Span struct{ Begin, End time.Time }

// Contains reports whether t is within the span.
func (s Span) Contains(t time.Time) bool { return !t.Before(s.Begin) && t.Before(s.End) }

var dayNames = [...]string{
	time.Sunday: "Sun", time.Monday: "Mon", time.Tuesday: "Tue", time.Wednesday: "Wed", time.Thursday: "Thu",
	time.Friday: "Fri", time.Saturday: "Sat",
}

const (
	day       = 24 * time.Hour
	timeOfDay = "15:04:05Z07:00"
)

var errNeverOpen = errors.New("is not after begin: the window never opens")

// Check returns an error if the window is invalid. The error names the field.
func (w Window) Check() error {
	_, err := w.parse()
	return err
}

type windowTimes struct {
	days [7]bool
	zone *time.Location
	// begin and end of a weekly window are durations since midnight in zone.
	begin, end time.Duration
	// fixedSpan is a window's span between two dates, or nil for a weekly window.
	fixedSpan *Span
}

func (w Window) parse() (windowTimes, error) {
	if len(w.Days) == 0 {
		return w.parseOnce()
	}
	t := windowTimes{}
	for i, name := range w.Days {
		weekday := slices.Index(dayNames[:], name)
		if weekday < 0 {
			return t, fmt.Errorf("days[%d]: %q: must be Mon, Tue, Wed, Thu, Fri, Sat or Sun", i, name)
		}
		if t.days[weekday] {
			return t, fmt.Errorf("days[%d]: duplicate %s", i, name)
		}
		t.days[weekday] = true
	}
	begin, beginOffset, err := parseClock(w.Begin)
	if err != nil {
		return t, fmt.Errorf("begin: %w", err)
	}
	end, endOffset, err := parseClock(w.End)
	if err != nil {
		return t, fmt.Errorf("end: %w", err)
	}
	if beginOffset != endOffset {
		return t, fmt.Errorf("end %q has a different offset than begin %q: use the same offset", w.End, w.Begin)
	}
	if end <= begin {
		end += day
	}
	t.zone, t.begin, t.end = time.FixedZone("", beginOffset), begin, end
	return t, nil
}

func parseClock(text string) (time.Duration, int, error) {
	// Parse in UTC. In any other location, the parser could replace the offset in the text with the local time zone.
	t, err := time.ParseInLocation(timeOfDay, text, time.UTC)
	if err != nil {
		return 0, 0, fmt.Errorf("%q: must be a time of day with its offset, such as 21:00:00+00:00", text)
	}
	_, offset := t.Zone()
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute +
		time.Duration(t.Second())*time.Second, offset, nil
}

func (w Window) parseOnce() (windowTimes, error) {
	begin, err := parseDate(w.Begin)
	if err != nil {
		return windowTimes{}, fmt.Errorf("begin: %w", err)
	}
	end, err := parseDate(w.End)
	if err != nil {
		return windowTimes{}, fmt.Errorf("end: %w", err)
	}
	if !end.After(begin) {
		return windowTimes{}, fmt.Errorf("end %q %w", w.End, errNeverOpen)
	}
	return windowTimes{fixedSpan: &Span{begin, end}}, nil
}

func parseDate(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%q: must be a date such as 2026-12-08T20:00:00Z, or set days for a weekly window", text)
	}
	return t.UTC(), nil
}

// listSpans returns the window's spans that end after now, in order. For a weekly window, it returns the spans in the
// next eight days.
func (t windowTimes) listSpans(now time.Time) []Span {
	if t.fixedSpan != nil {
		if t.fixedSpan.End.After(now) {
			return []Span{*t.fixedSpan}
		}
		return nil
	}
	var found []Span
	year, month, today := now.In(t.zone).Date()
	for i := -1; i <= 7; i++ { // start yesterday, because that window can still be open
		midnight := time.Date(year, month, today+i, 0, 0, 0, 0, t.zone)
		span := Span{midnight.Add(t.begin).UTC(), midnight.Add(t.end).UTC()}
		if t.days[midnight.Weekday()] && span.End.After(now) {
			found = append(found, span)
		}
	}
	return found
}
