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

// eventsSince returns the Events since a status, one per line.
func (m *fleetMember) eventsSince(since v1beta2.KymaStatus) string {
	var lines []string
	for _, e := range Happened(since, m.status) {
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
		"Nothing happened": {func(m *fleetMember) { m.later(time.Minute) }, nil},
		"A heartbeat":      {func(m *fleetMember) { m.report("newest", ready("keda"), ready("mail")) }, nil},
		"A bundle that asks for no other versions": {func(m *fleetMember) { m.publish("unrelated", nothing) }, nil},
		"A promotion is published": {func(m *fleetMember) { m.promote() }, []string{
			"Published: bundle 8: keda 1.0.0 → 2.0.0"}},
		"A promotion by a commit is published": {func(m *fleetMember) {
			m.publish("promoted", kedaTo("2.0.0"))
			m.facts.Published.Versions = map[string]string{"keda": "2.0.0", "mail": "1.0.0"}
			m.facts.Published.Predicate.Source = &bundle.Source{
				Repository: "https://git.example/fleet", Commit: "0123456789abcdef",
			}
			m.poll()
		}, []string{"Published: bundle 8 of commit 0123456789ab: keda 1.0.0 → 2.0.0"}},
		"It takes a while": {func(m *fleetMember) {
			m.promote()
			slow := at(ready("keda"), "2.0.0")
			slow.State = v1beta2.StateProcessing
			m.report("promoted", slow, ready("mail"))
		}, []string{"Published: bundle 8: keda 1.0.0 → 2.0.0", "Applied: keda 1.0.0 → 2.0.0"}},
		"A runtime gets ready with it": {func(m *fleetMember) {
			m.promote()
			m.before = m.status
			m.report("promoted", at(ready("keda"), "2.0.0"), ready("mail"))
		}, []string{"Ready: all modules are ready: keda 1.0.0 → 2.0.0"}},
		"It fails with it": {func(m *fleetMember) {
			m.promote()
			m.before = m.status
			broken := at(ready("keda"), "2.0.0")
			broken.State, broken.Message = v1beta2.StateError, "no such image"
			m.report("promoted", broken, ready("mail"))
		}, []string{"!Failed: module keda is Error: no such image"}},
		"It is rolled back": {func(m *fleetMember) {
			m.promote()
			m.before = m.status
			m.publish("back", kedaTo("1.0.0"))
			m.facts.Published.Versions = map[string]string{"keda": "1.0.0", "mail": "1.0.0"}
			m.facts.Published.Predicate.Rollback = []bundle.Rollback{{Module: "keda", From: "2.0.0", To: "1.0.0"}}
			m.poll()
		}, []string{"!RolledBack: bundle 9: keda 2.0.0 → 1.0.0"}},
		// the publisher emits the Event for its silence
		"It falls silent": {func(m *fleetMember) { m.later(allowedSilence) }, nil},
		// the publisher emits an Event for each refusal
		"It refuses a bundle": {func(m *fleetMember) { m.refuse(ready("keda"), ready("mail")) }, nil},
		"It refuses a bundle and a module breaks": {func(m *fleetMember) {
			broken := ready("keda")
			broken.State, broken.Message = v1beta2.StateError, "no such image"
			m.refuse(broken, ready("mail"))
		}, []string{"!Failed: module keda is Error: no such image"}},
		"A module is removed": {func(m *fleetMember) {
			m.publish("less", func(s *bundle.DesiredState) { s.Manifests = s.Manifests[:1] })
			m.facts.Published.Versions, m.facts.Published.Predicate.Removals = map[string]string{"keda": "1.0.0"},
				[]string{"mail"}
			m.poll()
			if got := m.eventsSince(m.before); got != "Published: bundle 8: mail 1.0.0 removed" {
				m.t.Errorf("while it is still there: %s", got)
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
			if again := Happened(m.status, *m.status.DeepCopy()); len(again) > 0 {
				t.Errorf("reported again: %+v", again)
			}
		})
	}
}

// refuse reports the newest bundle and that another one was refused.
func (m *fleetMember) refuse(modules ...bundle.ReportedModule) {
	m.report("newest", modules...)
	m.facts.Report.Refused = []bundle.RefusedBundle{
		{Digest: "sha256:bad", Reason: refusal.Expired, Detail: "its time is over"},
	}
	m.poll()
}

// promote publishes keda 2.0.0.
func (m *fleetMember) promote() {
	m.publish("promoted", kedaTo("2.0.0"))
	m.facts.Published.Versions = map[string]string{"keda": "2.0.0", "mail": "1.0.0"}
	m.poll()
}

func TestEventsTellOfEnrollmentAndTheFirstBundle(t *testing.T) {
	m := member(t)
	m.status.Runtime.Key = &v1beta2.RuntimeKey{Thumbprint: "thumbprint"}
	if got, want := m.eventsSince(v1beta2.KymaStatus{}),
		"Enrolled: the runtime enrolled with key thumbprint\nPublished: bundle 7: keda (none) → 1.0.0, mail (none) → "+
			"1.0.0\n"+
			"Ready: all modules are ready: keda (none) → 1.0.0, mail (none) → 1.0.0"; got != want {
		t.Errorf("got\n%s\n\nwant\n%s", got, want)
	}
}

func TestEventNamesFewModules(t *testing.T) {
	versions := map[string]string{}
	for i := range 30 {
		versions[fmt.Sprintf("m%02d", i)] = "1.0.0"
	}
	got := differences(nil, versions)
	if parts := strings.Split(got, ", "); len(parts) != maxToldModules+1 || !slices.Contains(parts, "and 20 more") {
		t.Error(got)
	}
}
