package prove

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

func target(version string, ready bool, defined ...fleet.Check) Target {
	return Target{
		Module:      "keda",
		Version:     version,
		Definitions: checks.Define(defined, nil, ""),
		CheckFor:    time.Hour,
		Installed:   ready,
		Ready:       ready,
	}
}

var (
	cel   = fleet.Check{Name: "cel", CEL: &fleet.CELCheck{Expression: "true"}}
	query = fleet.Check{Name: "query", PromQL: &fleet.PromQLCheck{Query: "up", Max: "1"}}
)

// world is a running Runner with fake measurements and synctest's fake time.
type world struct {
	*Runner
	measured, changed atomic.Int64
	verdict           atomic.Value
	before            string
}

func newWorld(t *testing.T) *world {
	w := &world{before: "0.5"}
	w.verdict.Store(checks.Success)
	w.Runner = New(Options{
		Measure: func(context.Context, Target, checks.Definition, string) checks.Measurement {
			w.measured.Add(1)
			return checks.Measurement{
				Verdict: w.verdict.Load().(checks.Verdict),
				Value:   "1",
			} //nolint:forcetypeassert // stores only verdicts
		},
		ValueBefore: func(context.Context, Target, checks.Definition) string { return w.before },
		OnChange:    func() { w.changed.Add(1) },
		Now:         time.Now,
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Start(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return w
}

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // fake time of synctest
	synctest.Wait()
}

func TestChecksRunFromReadinessToTheirTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Set([]Target{target("1.0.0", false, cel)})
		pass(time.Hour)
		require.Zero(t, w.measured.Load(), "checks must not run before the module is installed")

		w.Set([]Target{target("1.0.0", true, cel)})
		pass(time.Second)
		require.Equal(t, v1beta2.CheckInconclusive, w.Results("keda", "1.0.0")[0].Result)
		pass(2 * time.Minute)
		require.Equal(t, v1beta2.CheckPassed, w.Results("keda", "1.0.0")[0].Result)
		require.EqualValues(t, 2, w.changed.Load(), "only the results Inconclusive and Passed must count as changes")
		require.Nil(t, w.Results("keda", "2.0.0"))

		pass(2 * time.Hour)
		total := w.measured.Load()
		require.InDelta(t, 120, total, 5, "checks must run every 30s for an hour")
		pass(24 * time.Hour)
		require.Equal(t, total, w.measured.Load(), "checks must stop after CheckFor")
		require.Equal(t, v1beta2.CheckPassed, w.Results("keda", "1.0.0")[0].Result)
	})
}

// An operator can correct a check after more than bundle.MaxCheckFor.
func TestEditedCheckIsMeasuredForItsWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.verdict.Store(checks.Unknown)
		w.Set([]Target{target("1.0.0", true, cel)})
		pass(bundle.MaxCheckFor + 24*time.Hour)
		require.Equal(t, v1beta2.CheckInconclusive, w.Results("keda", "1.0.0")[0].Result)
		w.verdict.Store(checks.Success)
		edited := cel
		edited.CEL = &fleet.CELCheck{Expression: "1 == 1"}
		w.Set([]Target{target("1.0.0", true, edited)})
		pass(2 * time.Minute)
		require.Equal(t, v1beta2.CheckPassed, w.Results("keda", "1.0.0")[0].Result)
	})
}

func TestChecksContinueAfterTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		later := time.Now().Add(24 * time.Hour).UTC()
		state := checks.Continue(target("1.0.0", true, cel).Definitions, nil)[0]
		state.Result, state.Measured = v1beta2.CheckInconclusive, later
		w.Restore([]checks.Record{
			{Module: "keda", Version: "1.0.0", Ready: later, States: []checks.State{state}},
		})
		w.Set([]Target{target("1.0.0", true, cel)})
		pass(2 * time.Minute)
		require.Equal(t, v1beta2.CheckPassed, w.Results("keda", "1.0.0")[0].Result)
		require.InDelta(t, 4, w.measured.Load(), 1, "the interval must not change")
	})
}

func TestFailedCheckIsNotMeasuredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.verdict.Store(checks.Failure)
		w.Set([]Target{target("1.0.0", true, cel)})
		pass(10 * time.Minute)
		require.EqualValues(t, 3, w.measured.Load())
		require.Equal(t, v1beta2.CheckFailed, w.Results("keda", "1.0.0")[0].Result)
	})
}

func TestSlowCheckDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		quick := w.Measure
		var slow atomic.Int64
		w.Measure = func(ctx context.Context, t Target, d checks.Definition, before string) checks.Measurement {
			if d.Name == "query" {
				if slow.Add(1) > 1 {
					panic("measured twice at once")
				}
				pass := time.NewTimer(5 * time.Minute)
				defer slow.Add(-1)
				select {
				case <-pass.C:
				case <-ctx.Done():
				}
			}
			return quick(ctx, t, d, before)
		}
		w.Set([]Target{target("1.0.0", true, cel, query)})
		pass(2 * time.Minute)
		require.Equal(t, v1beta2.CheckPassed, w.Results("keda", "1.0.0")[0].Result)
		require.Zero(t, w.Results("keda", "1.0.0")[1].Passes)
	})
}

func TestHangingChecksOfOneModuleDoNotDelayOtherModules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		quick := w.Measure
		w.Measure = func(ctx context.Context, t Target, d checks.Definition, before string) checks.Measurement {
			if t.Module == "hostile" {
				<-ctx.Done()
			}
			return quick(ctx, t, d, before)
		}
		var hanging []fleet.Check
		for i := range bundle.MaxChecks {
			c := *cel.DeepCopy()
			c.Name = fmt.Sprint("hanging-", i)
			hanging = append(hanging, c)
		}
		hostile := target("1.0.0", true, hanging...)
		hostile.Module = "hostile"
		w.Set([]Target{hostile})
		pass(time.Minute)
		w.Set([]Target{hostile, target("1.0.0", true, cel)})
		pass(2 * time.Minute)
		require.Equal(t, v1beta2.CheckPassed, w.Results("keda", "1.0.0")[0].Result)
	})
}

func TestPreUpgradeValueIsMeasuredOnceAndSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Set([]Target{target("1.0.0", true, query)})
		pass(2 * time.Minute)
		next := target("2.0.0", false, query)
		w.Set([]Target{next})
		require.Nil(t, w.Results("keda", "2.0.0"))
		w.MeasureBefore(t.Context(), []Target{next})
		w.before = "7"
		w.MeasureBefore(t.Context(), []Target{next})
		records, unsaved := w.UnsavedRecords()
		require.True(t, unsaved)

		restarted := newWorld(t)
		restarted.Restore(records)
		_, unsaved = restarted.UnsavedRecords()
		require.False(t, unsaved)
		restarted.before = "9"
		restarted.MeasureBefore(t.Context(), []Target{next})
		restarted.Set([]Target{target("2.0.0", true, query)})
		pass(2 * time.Minute)
		got := restarted.Results("keda", "2.0.0")
		require.Equal(t, "0.5", got[0].Before)
		require.Equal(t, v1beta2.CheckPassed, got[0].Result)
	})
}

func TestOnlyChecksWithValuesAreMeasuredBeforeAnUpgrade(t *testing.T) {
	request := fleet.Check{Name: "request", HTTP: &fleet.HTTPCheck{Path: "/"}}
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			check fleet.Check
			want  string
		}{{query, "0.5"}, {request, "0.5"}, {cel, ""}} {
			w := newWorld(t)
			w.MeasureBefore(t.Context(), []Target{target("2.0.0", false, c.check)})
			w.Set([]Target{target("2.0.0", true, c.check)})
			pass(2 * time.Minute)
			require.Equal(t, c.want, w.Results("keda", "2.0.0")[0].Before, c.check.Name)
		}
	})
}

// The query returned no value before the upgrade. Without a record, the check can be newer than the upgrade.
func TestMeasureReceivesMissingValueOnlyAfterUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := checks.MissingValue
		for before, want := range map[string]string{"installation": "", "upgrade": missing, "no record": missing} {
			w := newWorld(t)
			w.before = ""
			var got string
			w.Measure = func(_ context.Context, _ Target, _ checks.Definition, before string) checks.Measurement {
				got = before
				return checks.Measurement{Verdict: checks.Unknown}
			}
			switch next := []Target{target("2.0.0", false, query)}; before {
			case "installation":
				w.RecordInstallations(next)
			case "upgrade":
				w.MeasureBefore(t.Context(), next)
			}
			records, _ := w.UnsavedRecords()
			w.Restore(records)
			w.Set([]Target{target("2.0.0", true, query)})
			pass(2 * time.Minute)
			require.Equal(t, want, got, before)
			require.Empty(t, w.Results("keda", "2.0.0")[0].Before)
		}
	})
}

func TestHangingQueryDelaysUpgradeUntilTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.ValueBefore = func(ctx context.Context, _ Target, _ checks.Definition) string { <-ctx.Done(); return "" }
		started := time.Now()
		w.MeasureBefore(t.Context(), []Target{target("2.0.0", false, query)})
		require.LessOrEqual(t, time.Since(started), measureBeforeTimeout)
	})
}

func TestResultsContinueAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Set([]Target{target("1.0.0", true, cel)})
		pass(40 * time.Second) // time for two measurements
		records, unsaved := w.UnsavedRecords()
		require.True(t, unsaved)
		w.MarkSaved(records)
		pass(2 * time.Minute)
		records, unsaved = w.UnsavedRecords()
		require.True(t, unsaved, "a changed result must be saved")
		w.MarkSaved(records)
		pass(time.Minute)
		_, unsaved = w.UnsavedRecords()
		require.False(t, unsaved, "changed counts must not be saved within the interval")
		pass(saveInterval)
		records, unsaved = w.UnsavedRecords()
		require.True(t, unsaved, "changed counts must be saved after the interval")

		restarted := newWorld(t)
		restarted.Restore(records)
		restarted.Set([]Target{target("1.0.0", true, cel)})
		require.Equal(t, records[0].States[0].Passes, restarted.Results("keda", "1.0.0")[0].Passes)
		pass(2 * time.Hour)
		require.Equal(t, v1beta2.CheckPassed, restarted.Results("keda", "1.0.0")[0].Result)
	})
}

func TestNoMeasurementIsDueWithoutChecks(t *testing.T) {
	w := New(Options{Now: time.Now})
	w.Set(nil)
	due, next := w.takeDue(time.Now())
	require.Empty(t, due)
	require.Zero(t, next)
}

func TestChecksOfTwentyModulesRunInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var targets []Target
		for i := range 20 {
			of := target("1.0.0", true, cel, query, fleet.Check{Name: "more", CEL: cel.CEL})
			of.Module = string(rune('a' + i))
			targets = append(targets, of)
		}
		w.Set(targets)
		pass(10 * time.Minute)
		require.InDelta(t, 20*3*20, w.measured.Load(), 70)
		for _, of := range targets {
			require.Len(t, w.Results(of.Module, "1.0.0"), 3)
		}
		require.LessOrEqual(t, len(w.Results("a", "1.0.0")), bundle.MaxChecks)
	})
}
