package chaos

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// Series contains values of one figure, sampled at equal intervals.
type Series struct {
	Name string
	// Unit is the unit of the values.
	Unit   Unit
	Values []float64
	// Least is the growth that is always allowed.
	Least float64
	// Grows is true if the figure can grow with the amount of data. The figure is then printed but not checked.
	Grows bool
}

// Unit is the unit of a series.
type Unit string

// Units of series.
const (
	Count Unit = ""
	MiB   Unit = "MiB"
)

// Trend describes the changes of a series after its first third. In the first third, programs fill their caches.
type Trend struct {
	Series
	// First and Last are the medians of the first and the last third of the series.
	First, Last float64
	// Growth is the growth after the first third. A trend is flat if Growth is at most Allowed.
	Growth, Allowed float64
}

const (
	// fewestValues is the minimum number of values for a trend.
	fewestValues = 9
	// allowedShare is the allowed growth, relative to the median of the first third.
	allowedShare = 0.25
	// noiseFactor times the median deviation from the slope is the noise of a series. Growth up to the noise is
	// allowed.
	noiseFactor = 3
)

// Judge computes the slope of the values after the first third, as the median of the slopes between all pairs of
// values. Outliers hardly affect this median.
func (s Series) Judge() (Trend, error) {
	n := len(s.Values)
	if n < fewestValues {
		return Trend{}, fmt.Errorf("%s has %d values, must have %d: increase the duration", s.Name, n, fewestValues)
	}
	t := Trend{Series: s, First: median(s.Values[:n/3]), Last: median(s.Values[n-n/3:])}
	rest := s.Values[n/3:]
	slope := slopeOf(rest)
	var distances []float64
	center, middle := median(rest), float64(len(rest)-1)/2
	for i, v := range rest {
		distances = append(distances, math.Abs(v-center-slope*(float64(i)-middle)))
	}
	t.Growth = slope * float64(len(rest)-1)
	t.Allowed = max(s.Least, allowedShare*t.First, noiseFactor*median(distances))
	return t, nil
}

// Flat reports whether the growth is within the allowed limits.
func (t Trend) Flat() bool { return t.Grows || t.Growth <= t.Allowed }

func slopeOf(values []float64) float64 {
	var slopes []float64
	for i := range values {
		for j := i + 1; j < len(values); j++ {
			slopes = append(slopes, (values[j]-values[i])/float64(j-i))
		}
	}
	return median(slopes)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func (t Trend) verdict() string {
	switch {
	case t.Grows:
		return "with use"
	case t.Flat():
		return "flat"
	}
	return "**GROWS**"
}

func (t Trend) text(value float64) string {
	if t.Unit == MiB {
		return fmt.Sprintf("%.1f MiB", value/(1<<20))
	}
	return fmt.Sprintf("%.0f", value)
}

func (t Trend) String() string {
	return fmt.Sprintf("%s grew by %s from %s, at most %s are allowed", t.Name, t.text(t.Growth), t.text(t.First),
		t.text(t.Allowed))
}

// WriteTrends writes a table of the trends.
func WriteTrends(to io.Writer, trends []Trend) error {
	if _, err := fmt.Fprintln(to,
		"| what | values | first third | last third | growth by slope | allowed | verdict "+
			"|\n|---|---:|---:|---:|---:|---:|---|"); err != nil {
		return err
	}
	for _, t := range trends {
		if _, err := fmt.Fprintf(to, "| %s | %d | %s | %s | %s | %s | %s |\n",
			t.Name, len(t.Values), t.text(t.First), t.text(t.Last), t.text(t.Growth), t.text(t.Allowed),
			t.verdict()); err != nil {
			return err
		}
	}
	return nil
}
