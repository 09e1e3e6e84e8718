package ui

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestCheckChartComparesMedianAndWorst(t *testing.T) {
	for name, c := range map[string]struct {
		check v1alpha1.CheckSummary
		want  string
	}{
		"check with all values": {
			v1alpha1.CheckSummary{Failed: 1, Median: "0.2", MedianBefore: "0.1", Worst: "0.8", WorstBefore: "0.2"},
			"[median before idle 0 12.5% median after bad 9 25.0% worst before idle 18 25.0% worst after bad 27 100.0%]",
		},
		"check without values before the upgrade": {
			v1alpha1.CheckSummary{Median: "2", Worst: "4"},
			"[median after good 0 50.0% worst after good 9 100.0%]",
		},
		"check with durations": {
			v1alpha1.CheckSummary{Median: "250ms", Worst: "1s", WorstBefore: "500ms"},
			"[median after good 0 25.0% worst before idle 9 50.0% worst after good 18 100.0%]",
		},
		"check without values": {v1alpha1.CheckSummary{Passed: 3}, "[]"},
		"check with zero and invalid values": {
			v1alpha1.CheckSummary{Median: "0", Worst: "NaN"}, "[median after good 0 0.0%]",
		},
	} {
		var bars []string
		view := viewCheck("canaries", c.check)
		for _, b := range view.Chart {
			bars = append(bars, fmt.Sprint(b.Name, " ", b.Tone, " ", b.Y, " ", b.Width))
		}
		if got := fmt.Sprint(bars); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if len(view.Chart) == 0 && view.Height() != 0 {
			t.Errorf("%s: the empty chart has a height of %d", name, view.Height())
		}
	}
}

func TestRolloutPageShowsChecks(t *testing.T) {
	s := serve(t, sampleFleet(100, false), nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/rollouts/keda-regular-4", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := send(t, request)
	for _, want := range []string{
		`<th scope="row">latency <span class="quiet">wave tenth</span></th>`,
		`aria-label="median before 0.21, median after 0.23, worst before 0.25, worst after 0.92"`,
		`<title>worst after 0.92</title>`,
		`<i class="idle"></i>before the upgrade`,
		`<a href="/runtimes/r-00001">r-00001</a>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
}

func TestRuntimePageShowsCheckResults(t *testing.T) {
	_, page, _ := serve(t, sampleFleet(3, true), nil).get(t, "/runtimes/r-00000")
	if !strings.Contains(page, "keda: check latency is Inconclusive: 0.4, 0.1 before the upgrade: no data") {
		t.Errorf("the page does not contain the result of the check:\n%s", page)
	}
}
