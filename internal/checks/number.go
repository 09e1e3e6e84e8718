package checks

import (
	"fmt"
	"math"
	"strconv"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// FormatNumber formats a number with six significant digits, as in Measurement.Value.
func FormatNumber(value float64) string { return strconv.FormatFloat(value, 'g', 6, 64) }

// ParseNumber parses a number. It returns false if the text is not a finite number. NaN would count as a Success,
// because a comparison with NaN is always false.
func ParseNumber(text string) (number float64, ok bool) {
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil && !math.IsNaN(number) && !math.IsInf(number, 0)
}

// MissingValue is the value before an upgrade if it could not be measured.
const MissingValue = "missing"

// CompareNumber compares a query's value with its check's bounds. The argument before is the value before the upgrade,
// or empty after a first installation. If it is not a number but, for example, MissingValue, CompareNumber cannot check
// the increase.
func CompareNumber(q fleet.PromQLCheck, value float64, before string) Measurement {
	m := Measurement{Verdict: Success, Value: FormatNumber(value)}
	rounded, finite := ParseNumber(m.Value)
	if !finite {
		return Measurement{Verdict: Unknown, Message: "the query returned " + m.Value + ", must return a finite number"}
	}
	failed := func(format string, args ...any) Measurement {
		return Measurement{Verdict: Failure, Value: m.Value, Message: fmt.Sprintf(format, args...)}
	}
	unknown := func(message string) Measurement {
		return Measurement{Verdict: Unknown, Value: m.Value, Message: message}
	}
	for _, bound := range []struct {
		text, name string
		exceeds    func(value, bound float64) bool
	}{
		{q.Max, "above max", func(v, b float64) bool { return v > b }},
		{q.Min, "below min", func(v, b float64) bool { return v < b }},
	} {
		if bound.text == "" {
			continue
		}
		limit, finite := ParseNumber(bound.text)
		if !finite {
			return unknown(fmt.Sprintf("the bound %q is not a number", bound.text))
		}
		if bound.exceeds(value, limit) {
			shown := m.Value
			if !bound.exceeds(rounded, limit) {
				shown = strconv.FormatFloat(value, 'g', -1, 64)
			}
			return failed("the value %s is %s %s", shown, bound.name, bound.text)
		}
	}
	if q.MaxIncreasePercent == nil {
		return m
	}
	bounded := q.Max != "" || q.Min != ""
	past, finite := ParseNumber(before)
	switch {
	case finite:
	case before != "":
		return unknown("the value before the upgrade is unknown, so maxIncreasePercent cannot be checked")
	case bounded:
		return m
	default:
		return unknown("the value before the upgrade is unknown, and max and min are not set")
	}
	switch increase := rounded - past; { // before is rounded, too, so rounding alone is not an increase
	case increase <= 0:
		return m
	case past == 0 && bounded:
		return m
	case past == 0:
		return unknown(fmt.Sprintf("the value increased from 0 to %s, so its increase in percent is undefined: set max",
			m.Value))
	case increase > math.Abs(past)*float64(*q.MaxIncreasePercent)/100:
		return failed("the value increased by %.0f%%, from %s to %s (maxIncreasePercent is %d)",
			100*increase/math.Abs(past), before, m.Value, *q.MaxIncreasePercent)
	}
	return m
}
