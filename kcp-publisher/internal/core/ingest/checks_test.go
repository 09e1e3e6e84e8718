package ingest

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// outcome returns a recorded outcome of a check that is defined by its name.
func outcome(name string, result v1beta2.CheckResult, value string) v1beta2.CheckOutcome {
	return v1beta2.CheckOutcome{Name: name, Result: result, Value: value, Definition: definitionOf(name)}
}

func definitionOf(check string) string {
	return checks.DefinitionID(fleet.Check{Name: check})
}

func inconclusive(message string) v1beta2.CheckOutcome {
	return v1beta2.CheckOutcome{
		Name: "latency", Result: v1beta2.CheckInconclusive, Definition: definitionOf("latency"), Message: message,
	}
}

func TestCheckResultsAreRecordedForLatestBundle(t *testing.T) {
	const started = "1 of 3 successes in a row, at an interval of 30s"
	passed, failed := outcome("latency", v1beta2.CheckPassed, "0.2"), outcome("latency", v1beta2.CheckFailed, "0.9")
	faster := outcome("latency", v1beta2.CheckPassed, "0.1")
	reports := func(all ...v1beta2.CheckOutcome) func(*Facts) {
		return func(f *Facts) {
			for _, o := range all {
				o.Definition = "" // reports do not contain it
				f.Report.Modules[0].Checks = append(f.Report.Modules[0].Checks,
					bundle.ReportedCheck{CheckOutcome: o, Passes: 3})
			}
		}
	}
	reportsUnknown := func(message string) func(*Facts) {
		return func(f *Facts) {
			reports(inconclusive(message))(f)
			f.Report.Modules[0].Checks[0].Unknowns = 1
		}
	}
	for name, c := range map[string]struct {
		before []v1beta2.CheckOutcome
		change func(*Facts)
		want   []v1beta2.CheckOutcome
	}{
		"report with the first result": {nil, reports(passed), []v1beta2.CheckOutcome{passed}},
		"report with a changed result": {[]v1beta2.CheckOutcome{passed}, reports(failed),
			[]v1beta2.CheckOutcome{failed}},
		"report with the same result and a different value": {[]v1beta2.CheckOutcome{passed}, reports(faster),
			[]v1beta2.CheckOutcome{passed}},
		"report with the first problem of an inconclusive check": {[]v1beta2.CheckOutcome{inconclusive(started)},
			reportsUnknown("no data"), []v1beta2.CheckOutcome{inconclusive("no data")}},
		"report with a different problem": {[]v1beta2.CheckOutcome{inconclusive("no data")},
			reportsUnknown("timeout"), []v1beta2.CheckOutcome{inconclusive("timeout")}},
		"report with more successes of an inconclusive check": {[]v1beta2.CheckOutcome{inconclusive(started)},
			reports(inconclusive("2 of 3 successes in a row")), []v1beta2.CheckOutcome{inconclusive(started)}},
		"report with a check that is not in the bundle": {nil, reports(outcome("other", v1beta2.CheckPassed, "")), nil},
		"recorded check that is no longer in the bundle": {
			[]v1beta2.CheckOutcome{outcome("other", v1beta2.CheckPassed, "")}, reports(), nil,
		},
		"recorded result of an earlier definition": {[]v1beta2.CheckOutcome{{
			Name: "latency", Result: v1beta2.CheckPassed, Definition: checks.DefinitionID(fleet.Check{Name: "earlier"}),
		}}, reports(), nil},
		"report without results": {[]v1beta2.CheckOutcome{failed}, reports(), []v1beta2.CheckOutcome{failed}},
		"report about the previous bundle": {nil, func(f *Facts) {
			reports(passed)(f)
			f.Report.Observed.Digest = earlier
		}, nil},
		"report about the previous version": {nil, func(f *Facts) {
			reports(passed)(f)
			f.Report.Modules[0].Version = "0.9.0"
		}, nil},
		"version that was tried but not applied": {nil, func(f *Facts) {
			reports(passed)(f)
			f.Report.Modules[0].Wanted, f.Report.Modules[0].Version = "1.0.0", "0.9.0"
		}, nil},
		"refused report": {nil, func(f *Facts) {
			reports(passed)(f)
			f.ReportRefused = &refusal.Error{Reason: refusal.ForeignKey}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			s.facts.Published.State.Manifests[0].Checks = []fleet.Check{{Name: "latency"}}
			s.facts.Published.Predicate.KymaGeneration = 4
			s.facts.Report.Kyma = &bundle.ReportedKyma{Generation: 4}
			s.facts.SelectedVersions = map[string]v1beta2.GivenVersion{"keda": {Rollout: "keda-regular-1", Checks: c.before}}
			c.change(&s.facts)
			got := NextStatus(s.before, s.facts, s.now).Runtime.Published.Given["keda"].Checks
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMeasurementsWithTheSameResultDoNotChangeTheStatus(t *testing.T) {
	s := healthy()
	s.facts.Published.State.Manifests[0].Checks = []fleet.Check{{Name: "latency"}}
	s.facts.Published.Predicate.KymaGeneration = 4
	s.facts.Report.Kyma = &bundle.ReportedKyma{Generation: 4}
	s.facts.SelectedVersions = map[string]v1beta2.GivenVersion{"keda": {Rollout: "keda-regular-1"}}
	measured := func(value string, passes int32) v1beta2.KymaStatus {
		s.facts.Report.Modules[0].Checks = []bundle.ReportedCheck{
			{CheckOutcome: outcome("latency", v1beta2.CheckPassed, value), Passes: passes},
		}
		return NextStatus(s.before, s.facts, s.now)
	}
	s.before = measured("0.2", 3)
	s.facts.SelectedVersions = s.before.Runtime.Published.Given
	s.before = measured("0.2", 3)
	if after := measured("0.3", 400); !equality.Semantic.DeepEqual(after, s.before) {
		t.Errorf("status changed from %+v to %+v", s.before, after)
	}
}

func TestWaveEndRecordsFinalCheckValuesOnce(t *testing.T) {
	s := healthy()
	s.facts.Published.State.Manifests[0].Checks = []fleet.Check{{Name: "errors"}, {Name: "latency"}}
	s.facts.Published.Predicate.KymaGeneration = 4
	s.facts.Report.Kyma = &bundle.ReportedKyma{Generation: 4}
	s.facts.SelectedVersions = map[string]v1beta2.GivenVersion{"keda": {Rollout: "keda-regular-1"}}
	measured := func(errors v1beta2.CheckResult, value string) v1beta2.KymaStatus {
		s.facts.Report.Modules[0].Checks = []bundle.ReportedCheck{
			{CheckOutcome: outcome("errors", errors, value)},
			{CheckOutcome: outcome("latency", v1beta2.CheckPassed, value)},
		}
		s.before = NextStatus(s.before, s.facts, s.now)
		s.facts.SelectedVersions = s.before.Runtime.Published.Given
		return s.before
	}
	want := func(errors, latency string, ended bool) {
		t.Helper()
		given := s.before.Runtime.Published.Given["keda"]
		if given.Checks[0].Value != errors || given.Checks[1].Value != latency || given.WaveEnded != ended {
			t.Errorf("got %+v, want values %s and %s, end of the wave %t", given, errors, latency, ended)
		}
	}
	measured(v1beta2.CheckPassed, "0.2")
	measured(v1beta2.CheckFailed, "0.3")
	want("0.3", "0.2", false)
	s.facts.EndedWaves = map[string]bool{"keda": true}
	measured(v1beta2.CheckFailed, "0.4")
	want("0.3", "0.4", true)
	ended := *s.before.DeepCopy()
	if after := measured(v1beta2.CheckFailed, "0.5"); !equality.Semantic.DeepEqual(after, ended) {
		t.Errorf("after the end of the wave, the status changed from %+v to %+v", ended, after)
	}
}

func TestWaveEndWithoutChecksRecordsNothing(t *testing.T) {
	s := healthy()
	s.facts.Published.Predicate.KymaGeneration = 4
	s.facts.Report.Kyma = &bundle.ReportedKyma{Generation: 4}
	s.facts.SelectedVersions = map[string]v1beta2.GivenVersion{"keda": {Rollout: "keda-regular-1"}}
	s.facts.EndedWaves = map[string]bool{"keda": true}
	if NextStatus(s.before, s.facts, s.now).Runtime.Published.Given["keda"].WaveEnded {
		t.Error("the end of a wave without checks was recorded")
	}
}
