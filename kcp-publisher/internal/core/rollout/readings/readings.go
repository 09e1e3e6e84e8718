// Package readings computes statistics of the values that a check measured in a wave's runtimes.
package readings

import (
	"cmp"
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// Reading is a value that a check measured in a runtime.
type Reading struct {
	Number  float64
	Text    string
	Runtime string
}

// List contains the readings of one check.
type List []Reading

// With returns the list with one more reading. It omits texts that Parse does not accept.
func (l List) With(runtime, text string) List {
	number, is := Parse(text)
	if !is {
		return l
	}
	return append(l, Reading{number, text, runtime})
}

// Parse parses a check's value: a finite number, or a duration such as 250ms, which it returns in seconds.
func Parse(text string) (number float64, ok bool) {
	if number, ok := checks.ParseNumber(text); ok {
		return number, true
	}
	duration, err := time.ParseDuration(text)
	return duration.Seconds(), err == nil
}

func compare(a, b Reading) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Runtime, b.Runtime))
}

// Median returns the median of the readings. For an even number of readings, it returns the lower one of the two middle
// readings. Without readings, it returns "".
func (l List) Median() string {
	if len(l) == 0 {
		return ""
	}
	sorted := slices.SortedFunc(slices.Values(l), compare)
	return sorted[(len(sorted)-1)/2].Text
}

// Worst returns the lowest reading if the check has only a lower bound, and otherwise the highest. Without readings, it
// returns nil.
func (l List) Worst(c fleet.Check) *Reading {
	if len(l) == 0 {
		return nil
	}
	worst := slices.MaxFunc(l, compare)
	if q := c.PromQL; q != nil && q.Min != "" && q.Max == "" && q.MaxIncreasePercent == nil {
		worst = slices.MinFunc(l, compare)
	}
	return &worst
}

// TextOf returns the text of a runtime's reading, or "".
func (l List) TextOf(runtime string) string {
	at := slices.IndexFunc(l, func(r Reading) bool { return r.Runtime == runtime })
	if at < 0 {
		return ""
	}
	return l[at].Text
}
