package chaos

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// figure returns values for one hour, one every ten seconds, with noise from a fixed seed.
func figure(noise float64, value func(i int) float64) Series {
	random := rand.New(rand.NewPCG(1, 2))
	s := Series{Name: "memory", Values: make([]float64, 360), Least: 1}
	for i := range s.Values {
		s.Values[i] = value(i) + noise*(random.Float64()*2-1)
	}
	return s
}

func TestTrendDistinguishesGrowthFromNoise(t *testing.T) {
	for name, c := range map[string]struct {
		series Series
		flat   bool
	}{
		"constant value":            {figure(0, func(int) float64 { return 100 }), true},
		"constant value with noise": {figure(20, func(int) float64 { return 100 }), true},
		"growth only in the first third": {
			figure(2, func(i int) float64 { return 100 * (1 - math.Exp(-float64(i)/30)) }), true,
		},
		"sawtooth": {figure(1, func(i int) float64 { return 50 + float64(i%40) }), true},
		"few outliers at the end": {
			figure(1, func(i int) float64 { return 50 + 400*float64(max(0, i-350)) }), true,
		},
		"decreasing value": {figure(1, func(i int) float64 { return 500 - float64(i) }), true},
		"leak":             {figure(0, func(i int) float64 { return 100 + float64(i)/2 }), false},
		"leak with noise":  {figure(20, func(i int) float64 { return 100 + float64(i)/2 }), false},
		"leak in steps": {
			figure(1, func(i int) float64 { return 100 + 25*float64(i/60) }), false,
		},
		"leak in a sawtooth pattern": {
			figure(1, func(i int) float64 { return 50 + float64(i%40) + float64(i)/2 }), false,
		},
		"growth after zeros in the first third": {
			figure(0, func(i int) float64 { return float64(max(0, i-120)) }), false,
		},
		"insignificant growth from 0": {figure(0, func(i int) float64 { return float64(i) / 1000 }), true},
		"expected growth with recorded data": {
			Series{Values: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, Grows: true}, true,
		},
	} {
		trend, err := c.series.Judge()
		if err != nil || trend.Flat() != c.flat {
			t.Errorf("%s: got trend %s and error %v, want flat: %t", name, trend, err, c.flat)
		}
	}
	if _, err := (Series{Name: "memory", Values: make([]float64, fewestValues-1)}).Judge(); err == nil ||
		!strings.Contains(err.Error(), "memory") {
		t.Errorf("series with too few values: got error %v, want one with the series' name", err)
	}
}

func TestWriteTrendsPrintsATable(t *testing.T) {
	leak, err := Series{Name: "heap", Unit: MiB,
		Values: []float64{1 << 20, 1 << 20, 1 << 20, 2 << 20, 3 << 20, 4 << 20, 5 << 20, 6 << 20, 7 << 20}}.Judge()
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := WriteTrends(&table, []Trend{leak}); err != nil ||
		!strings.Contains(table.String(), "| heap | 9 | 1.0 MiB | 6.0 MiB | 5.0 MiB | 0.2 MiB | **GROWS** |") {
		t.Errorf("got error %v and table\n%s", err, table.String())
	}
}

func TestSoakPlanHasNoFaults(t *testing.T) {
	plan := Calm(Generate(1, small, time.Hour))
	counts := Counts(plan)
	for _, kind := range []Kind{KillPublisher, StopRegistry, RestoreRegistry, CutRuntime, TakeLease} {
		if strings.Contains(counts, string(kind)) {
			t.Errorf("the plan of a soak contains fault %s", kind)
		}
	}
	for _, kind := range []Kind{Promote, RotatePublisher, CreateKyma, DeleteKyma, AddModule, RemoveModule, EditObject} {
		if !strings.Contains(counts, string(kind)) {
			t.Errorf("the plan of a soak lacks action %s", kind)
		}
	}
}
