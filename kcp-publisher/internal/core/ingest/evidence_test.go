package ingest

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestReportProvesGivenVersions(t *testing.T) {
	const rolloutName = "keda-regular-1"
	for name, c := range map[string]struct {
		change func(*Facts)
		state  v1beta2.State
		ready  bool
	}{
		"A report that names bundle, generation and version exactly": {func(*Facts) {}, v1beta2.StateReady, true},
		"Trouble in exactly that version": {
			func(f *Facts) { f.Report.Modules[0].State = v1beta2.StateError }, v1beta2.StateError, false,
		},
		"A report about the bundle before": {
			func(f *Facts) { f.Report.Observed.Digest = earlier }, "", false,
		},
		"A report about another generation of the Kyma": {
			func(f *Facts) { f.Report.Kyma.Generation = 8 }, "", false,
		},
		"A report about a Kyma that was replaced": {func(f *Facts) {
			f.Published.Predicate.KymaSpec = bundle.WishDigest(v1beta2.KymaSpec{Channel: "fast"})
		}, "", false},
		"A report without a Kyma": {func(f *Facts) { f.Report.Kyma = nil }, "", false},
		"A report that still has the version before": {
			func(f *Facts) { f.Report.Modules[0].Version = "0.9.0" }, "", false,
		},
		"Trouble of the version before": {func(f *Facts) {
			f.Report.Modules[0].Version, f.Report.Modules[0].State = "0.9.0", v1beta2.StateError
		}, "", false},
		"The version is refused, and the one before runs": {func(f *Facts) {
			f.Report.Modules[0].Wanted, f.Report.Modules[0].Version, f.Report.Modules[0].State = "1.0.0", "0.9.0",
				v1beta2.StateError
		}, v1beta2.StateError, false},
		"The version is wanted, and the one before is ready": {func(f *Facts) {
			f.Report.Modules[0].Wanted, f.Report.Modules[0].Version = "1.0.0", "0.9.0"
		}, v1beta2.StateReady, false},
		"An upgrade that waits for its window": {func(f *Facts) {
			f.Report.Modules[0].Version, f.Report.Modules[0].Maintenance = "0.9.0", true
		}, "", false},
		"A report that does not name the module": {
			func(f *Facts) { f.Report.Modules = f.Report.Modules[1:] }, "", false,
		},
		"A report that was refused": {
			func(f *Facts) { f.ReportRefused = &refusal.Error{Reason: refusal.ForeignKey} }, "", false,
		},
		"Silence": {func(f *Facts) { f.Report = nil }, "", false},
		"Silence of one that was ready in it": {
			func(f *Facts) { f.Report, f.Given = nil, was(f.Given, true) }, "", true,
		},
		"Trouble of one that was ready in it": {
			func(f *Facts) {
				f.Report.Modules[0].State, f.Given = v1beta2.StateError, was(f.Given, true)
			}, v1beta2.StateError, true,
		},
		"An earlier report counts only for its own bundle": {func(f *Facts) { f.Report = nil }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			s.facts.Published.Predicate.KymaGeneration = 4
			s.facts.Report.Kyma = &bundle.ReportedKyma{Generation: 4}
			s.facts.Given = map[string]v1beta2.GivenVersion{"keda": {Rollout: rolloutName, State: v1beta2.StateReady}}
			c.change(&s.facts)
			published := Status(s.before, s.facts, s.now).Runtime.Published
			if got := published.Given["keda"]; got.Rollout != rolloutName || got.State != c.state ||
				got.Ready != c.ready ||
				len(published.Given) != 1 {
				t.Errorf("got %+v", published.Given)
			}
		})
	}
}

func was(given map[string]v1beta2.GivenVersion, ready bool) map[string]v1beta2.GivenVersion {
	keda := given["keda"]
	keda.Ready = ready
	return map[string]v1beta2.GivenVersion{"keda": keda}
}

func TestHeldModuleNamesItsGateAndStaysReady(t *testing.T) {
	s := healthy()
	const why = "rollout keda-regular-1 holds version 2.0.0: wave others"
	s.facts.Problems = []bundle.Problem{{Module: "keda", Channel: "regular", State: v1beta2.StateReady, Message: why}}
	status := Status(s.before, s.facts, s.now)
	if m := status.Modules[0]; m.State != v1beta2.StateReady || m.Message != why || status.State != v1beta2.StateReady {
		t.Errorf("%s: %+v", status.State, m)
	}
	s.facts.Report.Modules[0].State, s.facts.Report.Modules[0].Message = v1beta2.StateWarning, "crashes"
	if m := Status(s.before, s.facts, s.now).Modules[0]; m.State != v1beta2.StateWarning ||
		m.Message != "crashes; "+why {
		t.Errorf("in trouble: %+v", m)
	}
}
