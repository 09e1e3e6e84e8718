package ingest

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestRolloutVersionIsProvenOnlyByAMatchingReport(t *testing.T) {
	const rolloutName = "keda-regular-1"
	for name, c := range map[string]struct {
		change func(*Facts)
		state  v1beta2.State
		ready  bool
	}{
		"report about the latest bundle, generation and version": {func(*Facts) {}, v1beta2.StateReady, true},
		"module in state Error with the rollout's version": {
			func(f *Facts) { f.Report.Modules[0].State = v1beta2.StateError }, v1beta2.StateError, false,
		},
		"report about the previous bundle": {
			func(f *Facts) { f.Report.Observed.Digest = earlier }, "", false,
		},
		"report about another generation of the Kyma": {
			func(f *Facts) { f.Report.Kyma.Generation = 8 }, "", false,
		},
		"report about a recreated Kyma with a different spec": {func(f *Facts) {
			f.Published.Predicate.KymaSpec = bundle.RequestDigest(v1beta2.KymaSpec{Channel: "fast"})
		}, "", false},
		"report without a Kyma": {func(f *Facts) { f.Report.Kyma = nil }, "", false},
		"report with the previous version": {
			func(f *Facts) { f.Report.Modules[0].Version = "0.9.0" }, "", false,
		},
		"module in state Error with the previous version": {func(f *Facts) {
			f.Report.Modules[0].Version, f.Report.Modules[0].State = "0.9.0", v1beta2.StateError
		}, "", false},
		"upgrade failed and the module is in state Error with the previous version": {func(f *Facts) {
			f.Report.Modules[0].Wanted, f.Report.Modules[0].Version, f.Report.Modules[0].State = "1.0.0", "0.9.0",
				v1beta2.StateError
		}, v1beta2.StateError, false},
		"upgrade failed and the module is ready with the previous version": {func(f *Facts) {
			f.Report.Modules[0].Wanted, f.Report.Modules[0].Version = "1.0.0", "0.9.0"
		}, v1beta2.StateProcessing, false},
		"upgrade waits for a maintenance window": {func(f *Facts) {
			f.Report.Modules[0].Version, f.Report.Modules[0].Maintenance = "0.9.0", true
		}, "", false},
		"report without the module": {
			func(f *Facts) { f.Report.Modules = f.Report.Modules[1:] }, "", false,
		},
		"refused report": {
			func(f *Facts) { f.ReportRefused = &refusal.Error{Reason: refusal.ForeignKey} }, "", false,
		},
		"runtime without a report": {func(f *Facts) { f.Report = nil }, "", false},
		"runtime without a report whose version was ready before": {
			func(f *Facts) { f.Report, f.SelectedVersions = nil, was(f.SelectedVersions, true) }, "", true,
		},
		"module in state Error, but the version was ready before": {
			func(f *Facts) {
				f.Report.Modules[0].State, f.SelectedVersions = v1beta2.StateError, was(f.SelectedVersions, true)
			}, v1beta2.StateError, true,
		},
		"runtime without a report but with a recorded state": {func(f *Facts) { f.Report = nil }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			s.facts.Published.Predicate.KymaGeneration = 4
			s.facts.Report.Kyma = &bundle.ReportedKyma{Generation: 4}
			s.facts.SelectedVersions = map[string]v1beta2.GivenVersion{"keda": {Rollout: rolloutName, State: v1beta2.StateReady}}
			c.change(&s.facts)
			published := NextStatus(s.before, s.facts, s.now).Runtime.Published
			if got := published.Given["keda"]; got.Rollout != rolloutName || got.State != c.state ||
				got.Ready != c.ready ||
				len(published.Given) != 1 {
				t.Errorf("got %+v, want state %q and ready %t", published.Given, c.state, c.ready)
			}
		})
	}
}

func TestRemovalIsProvenByACompleteReport(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		state  v1beta2.State
		ready  bool
	}{
		"report without the module": {func(f *Facts) { f.Report.Modules = f.Report.Modules[1:] }, v1beta2.StateReady, true},
		"report with the module": {func(f *Facts) {
			f.Report.Modules[0].State = v1beta2.StateDeleting
		}, v1beta2.StateDeleting, false},
		"report about the previous bundle": {func(f *Facts) {
			f.Report.Modules, f.Report.Observed.Digest = f.Report.Modules[1:], earlier
		}, "", false},
		"report that omits modules": {func(f *Facts) {
			f.Report.Modules, f.Report.Truncated = f.Report.Modules[1:], &bundle.Truncated{Modules: 1}
		}, "", false},
		"no report": {func(f *Facts) { f.Report = nil }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			s.facts.Published.State.Manifests = s.facts.Published.State.Manifests[1:]
			s.facts.Published.Predicate.KymaGeneration = 4
			s.facts.Report.Kyma = &bundle.ReportedKyma{Generation: 4}
			s.facts.SelectedVersions = map[string]v1beta2.GivenVersion{
				"keda": {Rollout: "keda-regular-removed-1", RemovedVersion: "1.0.0"},
			}
			c.change(&s.facts)
			got := NextStatus(s.before, s.facts, s.now).Runtime.Published.Given["keda"]
			if got.State != c.state || got.Ready != c.ready || got.RemovedVersion != "1.0.0" {
				t.Errorf("got %+v, want state %q and ready %t", got, c.state, c.ready)
			}
		})
	}
}

func was(given map[string]v1beta2.GivenVersion, ready bool) map[string]v1beta2.GivenVersion {
	keda := given["keda"]
	keda.Ready = ready
	return map[string]v1beta2.GivenVersion{"keda": keda}
}

func TestModuleHeldByARolloutStaysReadyWithMessage(t *testing.T) {
	s := healthy()
	const why = "rollout keda-regular-1 holds version 2.0.0: wave others"
	s.facts.Problems = []bundle.Problem{{Module: "keda", Channel: "regular", State: v1beta2.StateReady, Message: why}}
	status := NextStatus(s.before, s.facts, s.now)
	if m := status.Modules[0]; m.State != v1beta2.StateReady || m.Message != why || status.State != v1beta2.StateReady {
		t.Errorf("held module: got Kyma state %s and module %+v, want Ready with a message", status.State, m)
	}
	s.facts.Report.Modules[0].State, s.facts.Report.Modules[0].Message = v1beta2.StateWarning, "crashes"
	if m := NextStatus(s.before, s.facts, s.now).Modules[0]; m.State != v1beta2.StateWarning ||
		m.Message != "crashes; "+why {
		t.Errorf("held module in state Warning: got %+v, want both messages", m)
	}
}

// notReporting returns a status with the condition Reporting=False.
func notReporting(reason string) v1beta2.KymaStatus {
	return v1beta2.KymaStatus{Conditions: []metav1.Condition{
		{Type: v1beta2.ConditionReporting, Status: metav1.ConditionFalse, Reason: reason},
	}}
}

// A version was published long before the runtime could install it. The deadline must start only when the runtime could
// install the version.
func TestUpgradeDeadlineStartsWhenTheRuntimeCanUpgrade(t *testing.T) {
	published := noon.Add(-4 * 24 * time.Hour)
	for name, c := range map[string]struct {
		before v1beta2.KymaStatus
		change func(*Facts)
		began  time.Time
	}{
		"runtime that could start at once": {v1beta2.KymaStatus{}, func(*Facts) {}, published},
		"runtime whose maintenance window opened": {
			v1beta2.KymaStatus{Modules: []v1beta2.ModuleStatus{{Name: "keda", Maintenance: true}}}, func(f *Facts) {
				f.Report.Modules[0].State = v1beta2.StateProcessing
			}, noon,
		},
		"runtime that has not replaced the old version yet": {
			v1beta2.KymaStatus{Modules: []v1beta2.ModuleStatus{{Name: "keda", Maintenance: true}}}, func(f *Facts) {
				f.Report.Modules[0].State, f.Report.Modules[0].Version = v1beta2.StateProcessing, "0.9.0"
			}, noon,
		},
		"runtime that still waits for its window": {
			v1beta2.KymaStatus{Modules: []v1beta2.ModuleStatus{{Name: "keda", Maintenance: true}}}, func(f *Facts) {
				f.Report.Modules[0].Maintenance = true
			}, published,
		},
		"runtime that was silent":       {notReporting(v1beta2.ReasonSilent), func(*Facts) {}, noon},
		"runtime that never reported":   {notReporting(v1beta2.ReasonNeverReported), func(*Facts) {}, noon},
		"runtime with a wrong clock":    {notReporting(v1beta2.ReasonClockBehind), func(*Facts) {}, published},
		"runtime with a refused report": {notReporting(v1beta2.ReasonReportRefused), func(*Facts) {}, published},
		"silent runtime that was ready before": {
			notReporting(v1beta2.ReasonSilent),
			func(f *Facts) { f.SelectedVersions = was(f.SelectedVersions, true) }, published,
		},
		"runtime that claims a second window shortly after the first": {
			v1beta2.KymaStatus{Modules: []v1beta2.ModuleStatus{{Name: "keda", Maintenance: true}}}, func(f *Facts) {
				f.Report.Modules[0].State = v1beta2.StateProcessing
				given := f.SelectedVersions["keda"]
				given.StartedAt = new(metav1.NewTime(noon.Add(-time.Hour)))
				f.SelectedVersions["keda"] = given
			}, noon.Add(-time.Hour),
		},
		"runtime in its second window": {
			v1beta2.KymaStatus{Modules: []v1beta2.ModuleStatus{{Name: "keda", Maintenance: true}}}, func(f *Facts) {
				f.Report.Modules[0].State = v1beta2.StateProcessing
				given := f.SelectedVersions["keda"]
				given.StartedAt = new(metav1.NewTime(noon.Add(-23 * time.Hour)))
				f.SelectedVersions["keda"] = given
			}, noon,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			s.facts.Published.Predicate.KymaGeneration = 4
			s.facts.Report.Kyma = &bundle.ReportedKyma{Generation: 4}
			s.facts.SelectedVersions = map[string]v1beta2.GivenVersion{
				"keda": {Rollout: "keda-regular-1", Time: metav1.NewTime(published)},
			}
			c.change(&s.facts)
			given := collectEvidence(c.before, s.facts, noon)["keda"]
			if !given.Began().Equal(c.began) {
				t.Errorf("got deadline from %s, want from %s", given.Began(), c.began)
			}
		})
	}
}
