package window

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Schedule defines when one runtime's modules can be upgraded with downtime.
type Schedule struct {
	// Windows are the runtime's maintenance windows.
	Windows []Window `json:"windows"`
	// Default is the window that applies if none of Windows is open or opens later. It can be nil.
	Default *Window `json:"default,omitempty"`
	// Minimum is the time that must remain until the end of a window for an upgrade to start.
	Minimum metav1.Duration `json:"minimum,omitzero"`
	// Early allows the runtime's admin to start an upgrade before the next window.
	Early bool `json:"early,omitempty"`
}

const (
	// MaxWindows limits the number of windows per rule or runtime.
	MaxWindows = 104
	// MaxMinimum limits Schedule.Minimum.
	MaxMinimum = 24 * time.Hour
)

// Check returns an error if the schedule is invalid. The error names the field.
func (s Schedule) Check() error {
	if s.Minimum.Duration < 0 || s.Minimum.Duration > MaxMinimum {
		return fmt.Errorf("minimum: %s: must be 0 to %s", s.Minimum.Duration, MaxMinimum)
	}
	if s.Default != nil {
		if err := s.Default.Check(); err != nil {
			return fmt.Errorf("default.%w", err)
		}
	}
	return checkAll("windows", s.Windows)
}

func checkAll(field string, windows []Window) error {
	if len(windows) > MaxWindows {
		return fmt.Errorf("%s: %d windows, must be at most %d", field, len(windows), MaxWindows)
	}
	for i, w := range windows {
		if err := w.Check(); err != nil {
			return fmt.Errorf("%s[%d].%w", field, i, err)
		}
	}
	return nil
}

// Next returns the current or next time span that allows the start of an upgrade. It returns false if the schedule does
// not contain such a span. Windows that touch or overlap form one span.
func (s Schedule) Next(now time.Time) (Span, bool) {
	if span, ok := nextSpan(s.Windows, s.Minimum.Duration, now); ok || s.Default == nil {
		return span, ok
	}
	return nextSpan([]Window{*s.Default}, s.Minimum.Duration, now)
}

// CheckChosen reports whether an early upgrade can start now. The runtime's admin selected the time chosen for the
// early upgrade. This choice expires when the next window after that time begins. If the chosen time is in the future
// and before the next window, CheckChosen returns false and the chosen time.
func (s Schedule) CheckChosen(chosen, now time.Time) (open bool, from time.Time) {
	if !s.Early || chosen.IsZero() {
		return false, time.Time{}
	}
	window, ahead := s.Next(chosen)
	switch {
	case ahead && !window.Begin.After(chosen):
		return false, time.Time{} // the chosen time is inside a window
	case chosen.After(now):
		if next, is := s.Next(now); is && next.Begin.Before(chosen) {
			return false, time.Time{}
		}
		return false, chosen
	}
	return ahead && now.Before(window.Begin), time.Time{}
}

// TooShort returns the current or next span, and true, if all spans are shorter than Minimum. Otherwise, it returns
// false.
func (s Schedule) TooShort(now time.Time) (Span, bool) {
	if _, ok := s.Next(now); ok {
		return Span{}, false
	}
	s.Minimum.Duration = 0
	return s.Next(now)
}

func nextSpan(windows []Window, minimum time.Duration, now time.Time) (Span, bool) {
	var ahead []Span
	for _, w := range windows {
		if t, err := w.parse(); err == nil {
			ahead = append(ahead, t.listSpans(now)...)
		}
	}
	for _, span := range joinSpans(ahead) {
		begin := span.Begin
		if now.After(begin) {
			begin = now
		}
		if span.End.Sub(begin) >= minimum {
			return span, true
		}
	}
	return Span{}, false
}

// joinSpans sorts the spans and joins spans that touch or overlap.
func joinSpans(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return a.Begin.Compare(b.Begin) })
	var all []Span
	for _, span := range spans {
		last := len(all) - 1
		if last < 0 || span.Begin.After(all[last].End) {
			all = append(all, span)
		} else if span.End.After(all[last].End) {
			all[last].End = span.End
		}
	}
	return all
}
