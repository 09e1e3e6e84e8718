package checks

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

var start = time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)

func defined(c fleet.Check) Definition { return Define([]fleet.Check{c}, nil, "")[0] }

var readyCheck = fleet.Check{Name: "ready", CEL: &fleet.CELCheck{Expression: "true"}}

func TestConsecutiveMeasurementsDecideTheResult(t *testing.T) {
	for name, c := range map[string]struct {
		measured string // one letter for each measurement: s (success), f (failure) or u (unknown)
		want     v1beta2.CheckResult
	}{
		"one success":                              {"s", v1beta2.CheckInconclusive},
		"three successes":                          {"sss", v1beta2.CheckPassed},
		"three failures":                           {"fff", v1beta2.CheckFailed},
		"two failures":                             {"ff", v1beta2.CheckInconclusive},
		"unknown measurement resets successes":     {"ssuss", v1beta2.CheckInconclusive},
		"unknown measurement resets failures":      {"ffuff", v1beta2.CheckInconclusive},
		"failure resets successes":                 {"ssfss", v1beta2.CheckInconclusive},
		"unknown measurements do not fail a check": {"uuuuuuuu", v1beta2.CheckInconclusive},
		"failed check stays failed":                {"fffsssss", v1beta2.CheckFailed},
		"passed check fails after three failures":  {"sssfff", v1beta2.CheckFailed},
		"passed check after unknown measurement":   {"sssu", v1beta2.CheckInconclusive},
		"passed check after one failure":           {"sssf", v1beta2.CheckInconclusive},
		"passed check recovers after a failure":    {"sssfsss", v1beta2.CheckPassed},
		"more successes than the threshold":        {"sssssss", v1beta2.CheckPassed},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, measure(defined(readyCheck), c.measured).Result) })
	}
}

func measure(d Definition, measured string) State {
	s := Continue([]Definition{d}, nil)[0]
	verdicts := map[rune]Verdict{'s': Success, 'f': Failure, 'u': Unknown}
	for i, v := range measured {
		s = Next(d, s, Measurement{Verdict: verdicts[v], Message: "because", Value: "7"},
			start.Add(time.Duration(i)*time.Minute))
	}
	return s
}

func TestCheckResultsMatchTheMeasurements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := defined(fleet.Check{
			Name: "a", CEL: readyCheck.CEL,
			SuccessThreshold: rapid.Int32Range(1, 5).
				Draw(t, "success"),
			FailureThreshold: rapid.Int32Range(1, 5).Draw(t, "failure"),
		})
		measured := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"s", "f", "u"}), 1, 30).Draw(t, "measured"),
			"")
		s := measure(d, measured)
		failed := strings.Contains(measured, strings.Repeat("f", int(d.FailureThreshold)))
		passed := strings.HasSuffix(measured, strings.Repeat("s", int(d.SuccessThreshold)))
		want := v1beta2.CheckInconclusive
		switch {
		case failed:
			want = v1beta2.CheckFailed
		case passed:
			want = v1beta2.CheckPassed
		}
		if s.Result != want {
			t.Fatalf("%s with thresholds %d and %d: got %s, want %s", measured, d.SuccessThreshold, d.FailureThreshold,
				s.Result, want)
		}
		if total := int(s.Passes + s.Failures + s.Unknowns); total != len(measured) {
			t.Fatalf("%s: got %d measurements in total, want %d", measured, total, len(measured))
		}
	})
}

func TestMessagesExplainFailedAndInconclusiveResults(t *testing.T) {
	d := defined(readyCheck)
	require.Empty(t, measure(d, "sss").Message)
	require.Equal(t, "2 of 3 successes in a row, at an interval of 30s", measure(d, "ss").Message)
	require.Equal(t, "because", measure(d, "u").Message)
	require.Equal(t, "because", measure(d, "fff").Message)
	s := Next(d, State{},
		Measurement{Verdict: Failure, Message: strings.Repeat("x", 5000), Value: strings.Repeat("9", 99)}, start)
	require.Len(t, s.Message, bundle.MaxCheckMessageBytes)
	require.Len(t, s.Value, bundle.MaxCheckValueBytes)
}

func TestNextMeasurementIsDueAfterTheInterval(t *testing.T) {
	d := defined(readyCheck)
	for name, c := range map[string]struct {
		state    State
		ready    time.Time
		measured bool
		due      time.Time
	}{
		"module is not ready": {State{}, time.Time{}, false, time.Time{}},
		"first measurement":   {State{}, start, true, start},
		"next measurement": {
			State{Measured: start, Result: v1beta2.CheckPassed}, start, true, start.Add(30 * time.Second),
		},
		"due time is rounded": {
			State{Measured: start.Add(4900 * time.Millisecond), Result: v1beta2.CheckPassed}, start, true,
			start.Add(30 * time.Second),
		},
		"passed check after checkFor": {
			State{Measured: start.Add(time.Hour), Result: v1beta2.CheckPassed}, start, false, time.Time{},
		},
		"failed check": {
			State{Measured: start, Result: v1beta2.CheckFailed}, start, false, time.Time{},
		},
		"inconclusive check after checkFor": {
			State{Measured: start.Add(time.Hour), Result: v1beta2.CheckInconclusive}, start, true,
			start.Add(time.Hour + 30*time.Second),
		},
		"inconclusive check after MaxCheckFor": {
			State{Measured: start.Add(bundle.MaxCheckFor), Result: v1beta2.CheckInconclusive}, start, false,
			time.Time{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			due, measured := NextMeasurement(d, c.state, c.ready, time.Hour)
			require.Equal(t, c.measured, measured)
			if measured {
				require.Equal(t, c.due, due)
			}
		})
	}
	_, measured := NextMeasurement(Definition{Problem: "missing"}, State{}, start, time.Hour)
	require.False(t, measured, "a check without a definition is measured")
}

func TestShippedCheckIsSelectedByName(t *testing.T) {
	shipped := []fleet.Check{
		{Name: "smoke", CEL: &fleet.CELCheck{Expression: "false"}, Interval: metav1.Duration{Duration: time.Minute}},
	}
	got := Define([]fleet.Check{{Name: "smoke"}, {Name: "lost"}, readyCheck}, shipped, "")
	require.Equal(t, "lost", got[0].Name)
	require.Contains(t, got[0].Problem, "ships no check")
	require.Equal(t, DefaultInterval, got[1].Interval.Duration)
	require.Equal(t, "false", got[2].CEL.Expression)
	require.Equal(t, time.Minute, got[2].Interval.Duration)
	states := Continue(got, nil)
	require.Equal(t, v1beta2.CheckInconclusive, states[0].Result)
	require.Contains(t, states[0].Message, "ships no check")
	require.Equal(t, "unreadable", Define([]fleet.Check{{Name: "smoke"}}, nil, "unreadable")[0].Problem)
}

func TestCheckStateIsResetIfTheDefinitionChanges(t *testing.T) {
	query := fleet.Check{Name: "a", PromQL: &fleet.PromQLCheck{Query: "up", Max: "1"}}
	before := measure(defined(query), "sss")
	before.Before = "0.5"
	require.Equal(t, before, Continue([]Definition{defined(query)}, []State{before})[0])
	query.PromQL.Max = "2"
	changed := Continue([]Definition{defined(query)}, []State{before})[0]
	require.Empty(t, changed.Result, "the result is kept although the bound changed")
	require.Equal(t, "0.5", changed.Before, "the value before the upgrade is lost although the query did not change")
	query.PromQL.Query = "down"
	require.Empty(t, Continue([]Definition{defined(query)}, []State{before})[0].Before)
	require.Empty(t, Continue(nil, []State{before}))
}

func TestUnreadableDefinitionsKeepFailedResults(t *testing.T) {
	named, shipped := []fleet.Check{{Name: "a"}}, []fleet.Check{{Name: "a", CEL: &fleet.CELCheck{Expression: "true"}}}
	readable, unreadable := Define(named, shipped, ""), Define(named, nil, "the content cannot be read")
	for name, c := range map[string]struct {
		verdicts        string
		meanwhile, then v1beta2.CheckResult
	}{
		"Failed check stays Failed":         {"fff", v1beta2.CheckFailed, v1beta2.CheckFailed},
		"Passed check becomes Inconclusive": {"sss", v1beta2.CheckInconclusive, v1beta2.CheckInconclusive},
	} {
		measured := measure(readable[0], c.verdicts)
		during := Continue(unreadable, []State{measured})
		require.Equal(t, c.meanwhile, during[0].Result, name)
		after := Continue(readable, during)[0]
		require.Equal(t, c.then, after.Result, name)
		require.Equal(t, measured.Row, after.Row, name)
	}
}

func TestReportedResultsAreValid(t *testing.T) {
	reported := ReportedChecks([]State{{Name: "b", Result: v1beta2.CheckPassed, Passes: 3}, {Name: "a"}})
	require.NoError(t, (bundle.Report{Time: start, Modules: []bundle.ReportedModule{{Name: "keda", Checks: reported}}}).
		Check())
	require.Equal(t, v1beta2.CheckInconclusive, reported[0].Result)
	require.Equal(t, int32(3), reported[1].Passes)
	again := ReportedChecks(
		[]State{
			{Name: "b", Result: v1beta2.CheckPassed, Passes: 4, Value: "1"},
			{Name: "a", Passes: 1, Message: "1 of 3 successes in a row"},
		},
	)
	require.Equal(t, WithoutValues(reported), WithoutValues(again), "changed counts and values cause a report")
	require.NotEqual(t, WithoutValues(reported), WithoutValues(ReportedChecks([]State{
		{Name: "b", Result: v1beta2.CheckFailed}, {Name: "a"},
	})))
	problems := func(count int32, message string) []bundle.ReportedCheck {
		return WithoutValues(ReportedChecks([]State{
			{Name: "b", Result: v1beta2.CheckPassed}, {Name: "a", Unknowns: count, Message: message},
		}))
	}
	require.NotEqual(t, WithoutValues(reported), problems(1, "no data"), "the first problem causes no report")
	require.Equal(t, problems(1, "no data"), problems(2, "timeout"), "another problem causes a report")
}

func TestValuesAreComparedWithBounds(t *testing.T) {
	percent := func(p int32) *int32 { return &p }
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		check  fleet.PromQLCheck
		value  float64
		before string
		want   Verdict
		text   string
	}{
		"value below max": {fleet.PromQLCheck{Max: "0.25"}, 0.2, "", Success, ""},
		"value at max":    {fleet.PromQLCheck{Max: "0.25"}, 0.25, "", Success, ""},
		"value above max": {
			fleet.PromQLCheck{Max: "0.25"}, 0.3, "", Failure, "the value 0.3 is above max 0.25",
		},
		"only the rounded value is above max": {
			fleet.PromQLCheck{Max: "1234567"}, 1234566, "", Success, "",
		},
		"only the exact value is above max": {
			fleet.PromQLCheck{Max: "1000000"}, 1000004, "", Failure, "the value 1.000004e+06 is above max 1000000",
		},
		"only the exact value is below min": {
			fleet.PromQLCheck{Min: "0.999999"}, 0.9999987, "", Failure, "the value 0.9999987 is below min 0.999999",
		},
		"value below min": {
			fleet.PromQLCheck{Min: "3"}, 2, "", Failure, "the value 2 is below min 3",
		},
		"value is NaN": {
			fleet.PromQLCheck{Max: "1"}, inf - inf, "", Unknown, "must return a finite number",
		},
		"value is infinite": {fleet.PromQLCheck{Max: "1"}, inf, "", Unknown, "must return a finite number"},
		"bound is NaN":      {fleet.PromQLCheck{Max: "NaN"}, 5, "", Unknown, `the bound "NaN" is not a number`},
		"increase within the limit": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20)}, 1.2, "1", Success, "",
		},
		"increase above the limit": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20)}, 1.5, "1", Failure,
			"increased by 50%, from 1 to 1.5 (maxIncreasePercent is 20)",
		},
		"decrease": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(0)}, 0.5, "1", Success, "",
		},
		"increase of a negative value": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20)}, -5, "-10", Failure, "increased by 50%",
		},
		"rounding is not an increase": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(0)}, 1.0 / 3, FormatNumber(1.0 / 3), Success, "",
		},
		"no previous value": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20)}, 1, "", Unknown,
			"the value before the upgrade is unknown",
		},
		"no previous value, within max": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20), Max: "2"}, 1, "", Success, "",
		},
		"no previous value, above max": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20), Max: "2"}, 3, "", Failure, "above max",
		},
		"increase from zero": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20)}, 1, "0", Unknown, "set max",
		},
		"increase from zero, within max": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20), Max: "2"}, 1, "0", Success, "",
		},
		"value stays zero": {fleet.PromQLCheck{MaxIncreasePercent: percent(20)}, 0, "0", Success, ""},
		"previous value is not a number": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20)}, 1, "many", Unknown, "the value before the upgrade is unknown",
		},
		"previous value is NaN": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20)}, 1, "NaN", Unknown, "the value before the upgrade is unknown",
		},
		"previous value is infinite": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20)}, 1, "+Inf", Unknown, "the value before the upgrade is unknown",
		},
		"previous value is NaN, within max": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20), Max: "2"}, 1, "NaN", Unknown,
			"so maxIncreasePercent cannot be checked",
		},
		"value before the upgrade could not be measured, within max": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20), Max: "2"}, 1, MissingValue, Unknown,
			"so maxIncreasePercent cannot be checked",
		},
		"value before the upgrade could not be measured, above max": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20), Max: "2"}, 3, MissingValue, Failure, "above max",
		},
		"increase above the limit, within max": {
			fleet.PromQLCheck{MaxIncreasePercent: percent(20), Max: "2"}, 1.5, "1", Failure, "increased by 50%",
		},
		"bound is not a number": {
			fleet.PromQLCheck{Max: "many"}, 1, "", Unknown, `the bound "many" is not a number`,
		},
		"longest number fits into the value": {fleet.PromQLCheck{Max: "1"}, -1.7976931348623157e308, "", Success, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := CompareNumber(c.check, c.value, c.before)
			require.Equal(t, c.want, m.Verdict, m.Message)
			require.Contains(t, m.Message, c.text)
			require.LessOrEqual(t, len(m.Value), bundle.MaxCheckValueBytes)
		})
	}
}

func TestInvalidShippedChecksAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"valid check": {"checks:\n- name: a\n  cel: {expression: 'true'}\n", ""},
		"valid Job check": {
			"checks:\n- name: a\n  job: {namespace: b, template: {template: {spec: {containers: []}}}}\n", "",
		},
		"unknown field": {
			"checks:\n- name: a\n  cell: {expression: 'true'}\n", `unknown field "checks[0].cell"`,
		},
		"duplicate field":        {"checks:\n- name: a\n  name: b\n", "appears twice"},
		"YAML alias":             {"checks: &a\n- name: a\nmore: *a\n", "anchors and aliases"},
		"two documents":          {"checks: []\n---\nchecks: []\n", "more than 1 documents"},
		"empty document":         {"", `field "checks" is required`},
		"check without a kind":   {"checks:\n- name: a\n", "one of cel, http, promql and job is required"},
		"file that is too large": {strings.Repeat("#", MaxShippedBytes+1), "at most"},
		"not YAML":               {"\x00\x01", "content checks"},
		"list instead of a map":  {"- a", "content checks"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseShipped([]byte(c.text))
			if c.want == "" {
				require.NoError(t, err)
				require.Len(t, got, 1)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
