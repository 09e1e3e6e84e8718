// Package checks computes the state of a module's checks from their definitions, measurements and the time. Its
// functions are pure. Package probe takes the measurements.
//
// A measurement is a success, a failure or unknown. A check passes after SuccessThreshold successes in a row, and
// fails permanently after FailureThreshold failures in a row. Otherwise, its result is Inconclusive. An unknown
// measurement resets the count, so missing data alone never passes or fails a check.
package checks

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Defaults for a check. They must match the RolloutPolicy schema.
const (
	DefaultInterval  = 30 * time.Second
	DefaultTimeout   = 10 * time.Second
	DefaultThreshold = 3
)

// Verdict is the outcome of one measurement.
type Verdict string

// Verdicts for a measurement. Unknown means that the measurement failed, for example after a timeout.
const (
	Success Verdict = "success"
	Failure Verdict = "failure"
	Unknown Verdict = "unknown"
)

// Measurement is the result of running a check once.
type Measurement struct {
	Verdict Verdict
	// Value is the measured value. It is empty if the check has no value or it could not be measured.
	Value string
	// Message explains a failure or an unknown verdict.
	Message string
}

// State is the state of one check for one module version.
type State struct {
	Name string `json:"name"`
	// Of is a hash of the check's definition. Query is a hash of the request: the Service, path and PromQL query. Query
	// is empty for checks that send no request to a Service.
	Of    string `json:"of"`
	Query string `json:"query,omitempty"`
	// Result is empty before the first measurement.
	Result v1beta2.CheckResult `json:"result,omitempty"`
	// Row is the number of consecutive measurements with the same verdict: positive for successes, negative for
	// failures, and 0 after an unknown measurement.
	Row int32 `json:"row,omitempty"`
	// Passes, Failures and Unknowns are the total numbers of measurements with each verdict.
	Passes   int32  `json:"passes,omitempty"`
	Failures int32  `json:"failures,omitempty"`
	Unknowns int32  `json:"unknowns,omitempty"`
	Value    string `json:"value,omitempty"`
	Before   string `json:"before,omitempty"`
	Message  string `json:"message,omitempty"`
	// Measured is the last measurement's time.
	Measured time.Time `json:"measured,omitzero"`
	// Since is the time at which the check was defined, if the module was ready before.
	Since time.Time `json:"since,omitzero"`
}

// Record contains the states of all checks for one module version. The agent stores it to survive restarts.
type Record struct {
	Module  string `json:"module"`
	Version string `json:"version"`
	// Upgrade is false if the agent recorded the module's first installation before it began. Otherwise, the runtime can
	// have had a different version before.
	Upgrade bool `json:"upgrade,omitempty"`
	// Ready is the time when the module version became ready. It is zero before that.
	Ready  time.Time `json:"ready,omitzero"`
	States []State   `json:"states,omitempty"`
}

// ValueBefore returns the value of a check before the upgrade to this version. It returns MissingValue if that value
// could not be measured, and "" after a first installation.
func (r Record) ValueBefore(s State) string {
	if r.Upgrade && s.Before == "" {
		return MissingValue
	}
	return s.Before
}

// Definition is a module check with all defaults applied.
type Definition struct {
	fleet.Check
	// Problem is the reason why the check cannot be measured. It is empty if the check can be measured.
	Problem string

	// of and query are the values of State.Of and State.Query for this check.
	of, query string
}

// Next returns the state after a measurement.
func Next(d Definition, s State, m Measurement, now time.Time) State {
	s.Measured = now
	s.Value = cmp.Or(bundle.Bounded(m.Value, bundle.MaxCheckValueBytes), s.Value)
	switch m.Verdict {
	case Success:
		s.Row, s.Passes = min(max(s.Row, 0)+1, d.SuccessThreshold), increment(s.Passes)
	case Failure:
		s.Row, s.Failures = max(min(s.Row, 0)-1, -d.FailureThreshold), increment(s.Failures)
	case Unknown:
		s.Row, s.Unknowns = 0, increment(s.Unknowns)
	}
	switch {
	case s.Result == v1beta2.CheckFailed:
		return s // a failed check's result and message never change
	case s.Row >= d.SuccessThreshold:
		s.Result = v1beta2.CheckPassed
	case s.Row <= -d.FailureThreshold:
		s.Result = v1beta2.CheckFailed
	default:
		s.Result = v1beta2.CheckInconclusive
	}
	s.Message = bundle.Bounded(m.Message, bundle.MaxCheckMessageBytes)
	if m.Verdict == Success {
		s.Message = ""
		if s.Result == v1beta2.CheckInconclusive { // explains why a check with a long interval is not Passed yet
			s.Message = fmt.Sprintf("%d of %d successes in a row, at an interval of %s", s.Row, d.SuccessThreshold,
				d.Interval.Duration)
		}
	}
	return s
}

func increment(count int32) int32 {
	if count == math.MaxInt32 {
		return count
	}
	return count + 1
}

// NextMeasurement returns when the next measurement is due. It returns false if the check needs no further measurement.
//
// Measurements end when the duration checkFor has passed since the time ready or, for a check that was defined later,
// since State.Since. An Inconclusive check continues for up to bundle.MaxCheckFor, because the rollout waits for its
// result.
func NextMeasurement(d Definition, s State, ready time.Time, checkFor time.Duration) (time.Time, bool) {
	if ready.IsZero() || d.Problem != "" || s.Result == v1beta2.CheckFailed {
		return time.Time{}, false
	}
	if s.Measured.IsZero() {
		return ready, true
	}
	interval := d.Interval.Duration
	due := s.Measured.Truncate(roundingUnit(interval)).Add(interval)
	if s.Result != v1beta2.CheckPassed {
		checkFor = bundle.MaxCheckFor
	}
	if s.Since.After(ready) {
		ready = s.Since
	}
	return due, !due.After(ready.Add(checkFor))
}

// roundingUnit returns the unit that NextMeasurement rounds measurement times to: a sixth of the interval, but at least
// 1 second and at most 10 seconds. Rounding makes many modules' checks run at the same time, so the agent wakes up less
// often.
func roundingUnit(interval time.Duration) time.Duration {
	return max(min(interval/6, 10*time.Second).Truncate(time.Second), time.Second)
}

// Define returns a Manifest's checks with all defaults applied. If a check has no cel, http, promql or job, Define uses
// the check with the same name from the module's content (shipped).
func Define(manifest, shipped []fleet.Check, problem string) []Definition {
	definitions := make([]Definition, 0, len(manifest))
	for _, c := range manifest {
		d := Definition{Check: c}
		if c.CEL == nil && c.HTTP == nil && c.PromQL == nil && c.Job == nil {
			at := slices.IndexFunc(shipped, func(s fleet.Check) bool { return s.Name == c.Name })
			switch {
			case problem != "":
				d.Problem = problem
			case at < 0:
				d.Problem = "the module ships no check with this name in its content \"" + bundle.ContentChecks + "\""
			default:
				d.Check, d.Problem = shipped[at], latencyProblem(shipped[at])
			}
		}
		d.Interval.Duration = max(cmp.Or(d.Interval.Duration, DefaultInterval), bundle.MinCheckInterval)
		d.Timeout.Duration = min(cmp.Or(d.Timeout.Duration, DefaultTimeout), bundle.MaxCheckTimeout)
		d.SuccessThreshold = cmp.Or(d.SuccessThreshold, DefaultThreshold)
		d.FailureThreshold = cmp.Or(d.FailureThreshold, DefaultThreshold)
		d.of, d.query = DefinitionID(d.Check), checkQuery(d.Check)
		definitions = append(definitions, d)
	}
	slices.SortFunc(definitions, func(a, b Definition) int { return cmp.Compare(a.Name, b.Name) })
	return definitions
}

// Continue returns a state for each definition. A check with an unchanged definition keeps its previous state.
// Otherwise, the check starts again.
//
// The value before the upgrade is kept if the query did not change. A check with a Problem is Inconclusive, unless it
// has already Failed.
func Continue(definitions []Definition, previous []State) []State {
	states := make([]State, 0, len(definitions))
	for _, d := range definitions {
		s := State{Name: d.Name, Of: d.of, Query: d.query}
		at := slices.IndexFunc(previous, func(p State) bool { return p.Name == d.Name })
		switch {
		case at < 0:
		case previous[at].Of == s.Of, d.Problem != "":
			s = previous[at]
		case previous[at].Query == s.Query:
			s.Before = previous[at].Before
		}
		if d.Problem != "" && s.Result != v1beta2.CheckFailed {
			s.Result, s.Message = v1beta2.CheckInconclusive, bundle.Bounded(d.Problem, bundle.MaxCheckMessageBytes)
		}
		states = append(states, s)
	}
	return states
}

// DefinitionID returns a short hash of a check's definition in a bundle or a rollout. See v1beta2.CheckOutcome.
func DefinitionID(c fleet.Check) string {
	return identify(c)
}

func identify(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "" // cannot happen: the value was decoded from a bundle
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func checkQuery(c fleet.Check) string {
	switch {
	case c.PromQL != nil:
		return identify(fleet.PromQLCheck{Service: c.PromQL.Service, Path: c.PromQL.Path, Query: c.PromQL.Query})
	case c.HTTP != nil:
		return identify(fleet.HTTPCheck{Service: c.HTTP.Service, Path: c.HTTP.Path})
	}
	return ""
}

// ReportedChecks returns check states as they appear in a report, sorted by name. Checks without a measurement are
// Inconclusive.
func ReportedChecks(states []State) []bundle.ReportedCheck {
	if len(states) == 0 {
		return nil
	}
	reported := make([]bundle.ReportedCheck, 0, len(states))
	for _, s := range states {
		reported = append(reported, bundle.ReportedCheck{
			CheckOutcome: v1beta2.CheckOutcome{
				Name: s.Name, Result: cmp.Or(s.Result, v1beta2.CheckInconclusive), Value: s.Value, Before: s.Before,
				Message: s.Message,
			},
			Passes: s.Passes, Failures: s.Failures, Unknowns: s.Unknowns,
		})
	}
	slices.SortFunc(reported, func(a, b bundle.ReportedCheck) int { return cmp.Compare(a.Name, b.Name) })
	return reported
}

// WithoutValues returns the checks without their values: see bundle.ReportedCheck.WithoutValues.
func WithoutValues(reported []bundle.ReportedCheck) []bundle.ReportedCheck {
	lasting := slices.Clone(reported)
	for i := range lasting {
		lasting[i] = reported[i].WithoutValues()
	}
	return lasting
}
