package ui

import (
	"math"
	"strconv"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout/readings"
)

type checkView struct {
	Wave string
	v1alpha1.CheckSummary
	// Chart has a bar for each measured value.
	Chart []chartBar
}

type chartBar struct {
	Name, Text, Tone string
	// Y is the bar's upper edge in pixels. Width is the value as a percentage of the largest value in the chart.
	Y     int
	Width string
}

// barHeight is a bar's height in pixels. barStep also includes the gap to the next bar.
const barHeight, barStep = 6, 9

// viewCheck returns a check with its chart, which shows the median and the worst value before and after the upgrade.
func viewCheck(wave string, c v1alpha1.CheckSummary) checkView {
	after := "good"
	if c.Failed > 0 {
		after = "bad"
	}
	v := checkView{Wave: wave, CheckSummary: c}
	largest := 0.0
	for _, bar := range []chartBar{
		{Name: "median before", Text: c.MedianBefore, Tone: "idle"}, {
			Name: "median after", Text: c.Median, Tone: after,
		},
		{Name: "worst before", Text: c.WorstBefore, Tone: "idle"}, {Name: "worst after", Text: c.Worst, Tone: after},
	} {
		number, is := readings.Parse(bar.Text)
		if !is {
			continue
		}
		largest = max(largest, math.Abs(number))
		bar.Y = len(v.Chart) * barStep
		v.Chart = append(v.Chart, bar)
	}
	for i := range v.Chart {
		number, _ := readings.Parse(v.Chart[i].Text)
		width := 0.0
		if largest > 0 {
			width = math.Abs(number) / largest * 100
		}
		v.Chart[i].Width = strconv.FormatFloat(width, 'f', 1, 64) + "%"
	}
	return v
}

// Height is the chart's height in pixels.
func (v checkView) Height() int { return max(0, len(v.Chart)*barStep-(barStep-barHeight)) }
