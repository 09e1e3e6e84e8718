package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func (m *fleetMember) eventsSince(since v1beta2.KymaStatus) string {
	var lines []string
	for _, e := range EventsBetween(since, m.status) {
		line := e.Reason + ": " + e.Note
		if e.Warning {
			line = "!" + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestEventsAreEmittedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*fleetMember)
		want []string
	}{
		"unchanged status": {func(m *fleetMember) { m.later(time.Minute) }, nil},
		"repeated report": {
			func(m *fleetMember) { m.report("newest", ready("keda"), ready("mail")) }, nil,
		},
		"bundle without version changes": {func(m *fleetMember) { m.publish("unrelated", nothing) }, nil},
		"bundle with a promoted version": {func(m *fleetMember) { m.promote() }, []string{
			"Published: bundle 8: keda 1.0.0 → 2.0.0"}},
		"bundle with a promoted version from a commit": {func(m *fleetMember) {
			m.publish("promoted", kedaTo("2.0.0"))
			m.facts.Published.Versions = map[string]string{"keda": "2.0.0", "mail": "1.0.0"}
			m.facts.Published.Predicate.Source = &bundle.Source{
				Repository: "https://git.example/fleet", Commit: "0123456789abcdef",
			}
			m.poll()
		}, []string{"Published: bundle 8 from commit 0123456789ab: keda 1.0.0 → 2.0.0"}},
		"promoted module is progressing": {func(m *fleetMember) {
			m.promote()
			slow := at(ready("keda"), "2.0.0")
			slow.State = v1beta2.StateProcessing
			m.report("promoted", slow, ready("mail"))
		}, []string{"Published: bundle 8: keda 1.0.0 → 2.0.0", "Applied: keda 1.0.0 → 2.0.0"}},
		"promoted module is ready": {func(m *fleetMember) {
			m.promote()
			m.before = m.status
			m.report("promoted", at(ready("keda"), "2.0.0"), ready("mail"))
		}, []string{"Ready: all modules are ready: keda 1.0.0 → 2.0.0"}},
		"promoted module fails": {func(m *fleetMember) {
			m.promote()
			m.before = m.status
			broken := at(ready("keda"), "2.0.0")
			broken.State, broken.Message = v1beta2.StateError, "no such image"
			m.report("promoted", broken, ready("mail"))
		}, []string{"!Failed: module keda is Error: no such image"}},
		"promoted module is rolled back": {func(m *fleetMember) {
			m.promote()
			m.before = m.status
			m.publish("back", kedaTo("1.0.0"))
			m.facts.Published.Versions = map[string]string{"keda": "1.0.0", "mail": "1.0.0"}
			m.facts.Published.Predicate.Rollback = []bundle.Rollback{{Module: "keda", From: "2.0.0", To: "1.0.0"}}
			m.poll()
		}, []string{"!RolledBack: bundle 9: keda 2.0.0 → 1.0.0"}},
		// EventsBetween returns no Event for a silent runtime, because the controller emits it.
		"runtime becomes silent": {func(m *fleetMember) { m.later(allowedSilence) }, nil},
		// EventsBetween returns no Event for a refused bundle, because the controller emits it.
		"runtime refuses a bundle": {func(m *fleetMember) { m.refuse(ready("keda"), ready("mail")) }, nil},
		"runtime refuses a bundle and a module fails": {func(m *fleetMember) {
			broken := ready("keda")
			broken.State, broken.Message = v1beta2.StateError, "no such image"
			m.refuse(broken, ready("mail"))
		}, []string{"!Failed: module keda is Error: no such image"}},
		"module is removed": {func(m *fleetMember) {
			m.publish("less", func(s *bundle.DesiredState) { s.Manifests = s.Manifests[:1] })
			m.facts.Published.Versions, m.facts.Published.Predicate.Removals = map[string]string{"keda": "1.0.0"},
				[]string{"mail"}
			m.poll()
			if got := m.eventsSince(m.before); got != "Published: bundle 8: mail 1.0.0 removed" {
				m.t.Errorf("before the module is uninstalled: got %s", got)
			}
			m.before = m.status
			m.report("less", ready("keda"))
		}, []string{"Ready: all modules are ready: mail 1.0.0 removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := member(t)
			m.before = m.status
			c.then(m)
			if got, want := m.eventsSince(m.before), strings.Join(c.want, "\n"); got != want {
				t.Errorf("got\n%s\n\nwant\n%s", got, want)
			}
			if again := EventsBetween(m.status, *m.status.DeepCopy()); len(again) > 0 {
				t.Errorf("unchanged status: got repeated Events %+v", again)
			}
		})
	}
}

func (m *fleetMember) refuse(modules ...bundle.ReportedModule) {
	m.report("newest", modules...)
	m.facts.Report.Refused = []bundle.RefusedBundle{
		{Digest: "sha256:bad", Reason: refusal.Expired, Detail: "the bundle has expired"},
	}
	m.poll()
}

func (m *fleetMember) promote() {
	m.publish("promoted", kedaTo("2.0.0"))
	m.facts.Published.Versions = map[string]string{"keda": "2.0.0", "mail": "1.0.0"}
	m.poll()
}

func TestEventsReportEnrollmentAndFirstBundle(t *testing.T) {
	m := member(t)
	m.status.Runtime.Key = &v1beta2.RuntimeKey{Thumbprint: "thumbprint"}
	if got, want := m.eventsSince(v1beta2.KymaStatus{}),
		"Enrolled: the runtime enrolled with key thumbprint\nPublished: bundle 7: keda (none) → 1.0.0, mail (none) → "+
			"1.0.0\n"+
			"Ready: all modules are ready: keda (none) → 1.0.0, mail (none) → 1.0.0"; got != want {
		t.Errorf("got\n%s\n\nwant\n%s", got, want)
	}
}

func TestEventListsALimitedNumberOfModules(t *testing.T) {
	versions := map[string]string{}
	for i := range 30 {
		versions[fmt.Sprintf("m%02d", i)] = "1.0.0"
	}
	got := describeChanges(nil, versions)
	if parts := strings.Split(got, ", "); len(parts) != maxEventModules+1 || !slices.Contains(parts, "and 20 more") {
		t.Errorf("got %q, want %d modules and the number of others", got, maxEventModules)
	}
}
