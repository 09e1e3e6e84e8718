package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// fleetMember simulates a runtime over several bundles.
type fleetMember struct {
	t      *testing.T
	before v1beta2.KymaStatus // EventsBetween compares this status with the current one
	status v1beta2.KymaStatus
	facts  Facts
	now    time.Time
}

// member returns a runtime that has applied its first bundle. Its modules keda and mail are ready.
func member(t *testing.T) *fleetMember {
	s := healthy()
	s.facts.Published.Predicate.IssuedAt = noon
	m := &fleetMember{t: t, facts: s.facts, now: noon}
	m.status = s.status()
	m.want("Ready", "keda@1.0.0 Ready", "mail@1.0.0 Ready")
	return m
}

func (m *fleetMember) publish(name string, change func(state *bundle.DesiredState)) *fleetMember {
	last := m.facts.Published
	state := last.State
	state.Manifests = slices.Clone(state.Manifests)
	change(&state)
	m.now = m.now.Add(time.Second)
	m.facts.Published = &plan.PublishedBundle{
		Predicate: bundle.Predicate{
			Sequence: last.Predicate.Sequence + 1, IssuedAt: m.now, Previous: &bundle.Position{
				Sequence: last.Predicate.Sequence, Digest: last.Digest,
			},
		},
		Digest: digest.FromString(name), State: state, Versions: last.Versions,
		Changes: plan.ChangesBetween(last.State, state),
	}
	return m.poll()
}

func (m *fleetMember) poll() *fleetMember {
	m.status = NextStatus(m.status, m.facts, m.now)
	return m
}

// report simulates a report that lists the named bundle as applied and these modules as installed.
func (m *fleetMember) report(name string, modules ...bundle.ReportedModule) *fleetMember {
	report := *m.facts.Report
	report.Sequence++
	report.Time = m.now
	report.Observed = &bundle.Observed{Epoch: 1, Digest: digest.FromString(name)}
	report.Modules = modules
	m.facts.Report = &report
	RecordReport(&m.status, report, "key", "thumbprint", m.now)
	return m.poll()
}

func (m *fleetMember) later(d time.Duration) *fleetMember {
	m.now = m.now.Add(d)
	return m.poll()
}

func (m *fleetMember) want(lines ...string) *fleetMember {
	m.t.Helper()
	if got, want := outline(m.status), strings.Join(lines, "\n"); got != want {
		m.t.Errorf("got\n%s\n\nwant\n%s", got, want)
	}
	return m
}

// superseded returns the number of bundles in the history that the runtime may still report.
func (m *fleetMember) superseded() (n int) {
	for _, b := range m.status.Runtime.History {
		if b.Superseded != nil {
			n++
		}
	}
	return n
}

func nothing(*bundle.DesiredState) {}

func kedaTo(version string) func(*bundle.DesiredState) {
	return func(s *bundle.DesiredState) { s.Manifests[0].Version = version }
}

func at(m bundle.ReportedModule, version string) bundle.ReportedModule {
	m.Version = version
	return m
}

func pending(bundle int) []string {
	return []string{fmt.Sprintf("not Accepted (Pending): waiting for the runtime to report bundle %d", bundle),
		"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet"}
}

func TestBundleWithoutModuleChangesKeepsKymaReady(t *testing.T) {
	m := member(t)
	for i, change := range []func(*bundle.DesiredState){
		nothing, // a renewed bundle, or one with a new catalog
		func(s *bundle.DesiredState) { s.Settings.PollInterval.Duration = time.Minute },
		func(s *bundle.DesiredState) { s.Offers = []bundle.Manifest{module("else")} },
	} {
		m.publish(fmt.Sprint("unrelated ", i), change).
			want(append(append([]string{"Ready"}, pending(8+i)...), "keda@1.0.0 Ready", "mail@1.0.0 Ready")...)
	}
	// A report about an intermediate bundle must have the same effect.
	m.report("unrelated 1", ready("keda"), ready("mail")).
		want(append(append([]string{"Ready"}, pending(10)...), "keda@1.0.0 Ready", "mail@1.0.0 Ready")...)
	if got := m.superseded(); got != 3 {
		t.Errorf("got %d earlier bundles with a difference, want 3", got)
	}
	m.report("unrelated 2", ready("keda"), ready("mail")).want("Ready", "keda@1.0.0 Ready", "mail@1.0.0 Ready")
	if got := m.superseded(); got != 0 {
		t.Errorf("got %d earlier bundles with a difference after a report about the latest, want 0", got)
	}
}

func TestChangedModuleIsProcessingUntilItIsReported(t *testing.T) {
	m := member(t).publish("promoted", kedaTo("2.0.0"))
	waits := "waiting for the runtime to report bundle 8"
	m.want("Processing", "not Accepted (Pending): "+waits, "not Modules (NotReady): module keda is Processing: "+waits,
		"not ModuleCatalog (NotReady): the runtime has not reported the latest bundle yet",
		"not Ready (NotReady): "+waits,
		"keda@1.0.0 Processing: "+waits, "mail@1.0.0 Ready")
	// The runtime may have applied the new version, so a later bundle with the old version does not make the module
	// Ready.
	m.publish("unrelated", nothing).publish("back", kedaTo("1.0.0"))
	if m.status.State != v1beta2.StateProcessing || m.status.Modules[0].State != v1beta2.StateProcessing ||
		m.status.Modules[1].State != v1beta2.StateReady {
		t.Error(outline(m.status))
	}
	m.report("back", ready("keda"), ready("mail")).want("Ready", "keda@1.0.0 Ready", "mail@1.0.0 Ready")
}

func TestStateOfUnchangedModuleIsKept(t *testing.T) {
	m := member(t)
	m.facts.Report.Modules = slices.Clone(m.facts.Report.Modules)
	m.facts.Report.Modules[1].State, m.facts.Report.Modules[1].Message = v1beta2.StateError, "no such image"
	m.poll().publish("unrelated", nothing)
	if m.status.State != v1beta2.StateError || m.status.Modules[1].Message != "no such image" {
		t.Error(outline(m.status))
	}
}

func TestReportAboutUnrecordedBundleDoesNotMakeModulesReady(t *testing.T) {
	for name, then := range map[string]func(*fleetMember){
		"report about an unknown bundle": func(m *fleetMember) {
			m.publish("unrelated", nothing).report("unknown", ready("keda"), ready("mail"))
		},
		"bundle whose predecessor is not the recorded bundle": func(m *fleetMember) {
			m.publish("unrelated", nothing)
			m.facts.Published.Predicate.Previous.Digest = digest.FromString("not recorded")
			m.facts.Published.Digest = digest.FromString("another")
			m.poll()
		},
		"adopted bundle without recorded changes": func(m *fleetMember) {
			m.publish("unrelated", nothing)
			m.facts.Published.Changes, m.facts.Published.Digest = nil, digest.FromString("found")
			m.poll()
		},
		"bundle with changed settings that affect every module": func(m *fleetMember) {
			m.publish("mirrored", func(s *bundle.DesiredState) { s.Settings.Mirrors = map[string]string{"a": "b"} })
		},
		"bundle that is not applied within the allowed silence": func(m *fleetMember) {
			m.publish("unrelated", nothing).later(allowedSilence).report("newest", ready("keda"), ready("mail")).
				later(time.Second)
		},
		"bundle with more changed modules than the limit": func(m *fleetMember) {
			m.publish("large", func(s *bundle.DesiredState) {
				for i := range maxChanged + 1 {
					s.Manifests = append(s.Manifests, module(fmt.Sprint("m", i)))
				}
			})
			if m.status.Modules[0].State != v1beta2.StateProcessing {
				m.t.Error("the state of an unchanged module was kept although the changes exceed the limit")
			}
		},
		"refused bundle": func(m *fleetMember) {
			m.publish("unrelated", nothing)
			m.facts.Report.Refused = []bundle.RefusedBundle{
				{Digest: m.facts.Published.Digest, Reason: refusal.UnknownKey, Detail: "d"},
			}
			m.poll()
		},
		"refused report": func(m *fleetMember) {
			m.publish("unrelated", nothing)
			m.facts.ReportRefused = &refusal.Error{Reason: refusal.BadSignature, Detail: "d"}
			m.poll()
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := member(t)
			if then(m); m.status.State == v1beta2.StateReady {
				t.Errorf("got state Ready:\n%s", outline(m.status))
			}
		})
	}
}

func TestRunningVersionsComeFromTheReport(t *testing.T) {
	m := member(t).publish("promoted", kedaTo("2.0.0"))
	m.report("promoted", at(ready("keda"), "1.0.0"), ready("mail"))
	if keda := m.status.Modules[0]; keda.Version != "1.0.0" || keda.State != v1beta2.StateProcessing {
		t.Errorf("the old version is still installed: got %+v", keda)
	}
	m.report("promoted", at(ready("keda"), "2.0.0"), ready("mail")).
		want("Ready", "keda@2.0.0 Ready", "mail@1.0.0 Ready")
	m.publish("more", func(s *bundle.DesiredState) { s.Manifests = append(s.Manifests, module("new")) })
	if added := m.status.Modules[2]; added.Version != "" || added.State != v1beta2.StateProcessing {
		t.Errorf("module that is not installed yet: got %+v", added)
	}
	m.facts.Report = nil
	if m.poll(); m.status.Modules[0].Version != "2.0.0" {
		t.Errorf("without a report: got %+v, want the last known version", m.status.Modules[0])
	}
}
