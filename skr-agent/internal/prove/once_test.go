package prove

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

func TestCheckRunMeasuresEachCheckOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		measure, ended := w.Measure, make(chan struct{})
		w.Measure = func(ctx context.Context, t Target, d checks.Definition, before string) checks.Measurement {
			m := measure(ctx, t, d, before)
			<-ended
			switch d.Name {
			case "bad":
				m.Verdict, m.Message = checks.Failure, "above 1"
			case "slow":
				m.Verdict, m.Message = checks.Unknown, "no answer"
			}
			return m
		}
		template := runtime.RawExtension{Raw: []byte("{}")}
		job := fleet.Check{Name: "job", Job: &fleet.JobCheck{Namespace: "a", Template: template}}
		missing := fleet.Check{Name: "missing"}
		bad, slow := fleet.Check{Name: "bad", CEL: cel.CEL}, fleet.Check{Name: "slow", CEL: cel.CEL}
		w.SetRun("one", target("1.0.0", true, cel, bad, slow, job, missing), "")
		require.True(t, w.HasRun("one"))
		pass(time.Minute)
		require.Nil(t, w.RunResult(), "a running check run must not have a result")
		close(ended)
		pass(time.Hour)
		result := w.RunResult()
		require.EqualValues(t, 3, w.measured.Load(), "each check must be measured once, except Jobs")
		require.EqualValues(t, 1, w.changed.Load())
		require.Equal(t, "1.0.0", result.Version)
		got := map[string]v1beta2.CheckResult{}
		for _, c := range result.Checks {
			got[c.Name] = c.Result
		}
		require.Equal(t, map[string]v1beta2.CheckResult{
			"bad": v1beta2.CheckFailed, "cel": v1beta2.CheckPassed, "slow": v1beta2.CheckInconclusive,
			"job": v1beta2.CheckInconclusive, "missing": v1beta2.CheckInconclusive,
		}, got)
		require.Equal(t, jobsSkippedMessage, result.Checks[2].Message)
	})
}

func TestCheckRunUsesThePreUpgradeValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		next := target("2.0.0", false, query)
		w.MeasureBefore(t.Context(), []Target{next})
		w.Set([]Target{target("2.0.0", true, query)})
		other := query
		other.Name, other.PromQL = "same-query", &fleet.PromQLCheck{Query: "up", Min: "0"}
		w.SetRun("one", target("2.0.0", true, other), "")
		pass(time.Second)
		require.Equal(t, "0.5", w.RunResult().Checks[0].Before)
	})
}

func TestCheckRunDoesNotChangeModuleResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Set([]Target{target("1.0.0", true, cel)})
		pass(2 * time.Minute)
		before := w.Results("keda", "1.0.0")
		w.verdict.Store(checks.Failure)
		w.SetRun("one", target("1.0.0", true, cel), "")
		pass(time.Millisecond)
		require.Equal(t, v1beta2.CheckFailed, w.RunResult().Checks[0].Result)
		require.Equal(t, before, w.Results("keda", "1.0.0"))
		records, _ := w.UnsavedRecords()
		require.Len(t, records, 1, "a check run must not be saved")
	})
}

func TestNewCheckRunReplacesRunningOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		measure := w.Measure
		w.Measure = func(ctx context.Context, t Target, d checks.Definition, before string) checks.Measurement {
			if t.Version == "1.0.0" {
				time.Sleep(time.Hour) //nolint:forbidigo // fake time of synctest
			}
			return measure(ctx, t, d, before)
		}
		w.SetRun("one", target("1.0.0", true, cel), "")
		pass(time.Second)
		w.SetRun("two", target("2.0.0", true, cel), "")
		pass(time.Second)
		require.Equal(t, "two", w.RunResult().ID)
		pass(2 * time.Hour)
		require.Equal(t, "two", w.RunResult().ID)
		w.SetRun("three", Target{Module: "nats"}, "the runtime does not have it")
		pass(time.Second)
		require.Equal(t, "the runtime does not have it", w.RunResult().Problem)
		require.Empty(t, w.RunResult().Checks)
	})
}
