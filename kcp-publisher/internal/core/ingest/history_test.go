package ingest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func (m *fleetMember) remembered() string {
	var lines []string
	for _, b := range m.status.Runtime.History {
		line := fmt.Sprintf("%d %s applied:%t", b.Sequence, b.State, b.Applied != nil)
		for _, c := range b.Changes {
			line += fmt.Sprintf(" %s %s→%s", c.Module, c.From, c.To)
		}
		if b.More > 0 {
			line += fmt.Sprintf(" +%d", b.More)
		}
		if b.Refused != "" {
			line += " refused:" + b.Refused
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (m *fleetMember) wantHistory(lines ...string) {
	m.t.Helper()
	if got, want := m.remembered(), strings.Join(lines, "\n"); got != want {
		m.t.Errorf("got\n%s\n\nwant\n%s", got, want)
	}
}

func TestHistoryRecordsBundleOutcomes(t *testing.T) {
	m := member(t)
	m.facts.Published.Versions = map[string]string{"keda": "1.0.0", "mail": "1.0.0"}
	m.status = NextStatus(v1beta2.KymaStatus{}, m.facts, m.now)
	m.wantHistory("7  applied:false keda →1.0.0 mail →1.0.0")
	m.report("newest", ready("keda"), ready("mail"))
	m.wantHistory("7 Ready applied:true keda →1.0.0 mail →1.0.0")
	applied := *m.status.Runtime.History[0].Applied

	m.publish("second", kedaTo("2.0.0"))
	m.wantHistory("8  applied:false", "7 Ready applied:true keda →1.0.0 mail →1.0.0")
	m.later(time.Minute).report("second", at(ready("keda"), "2.0.0"), ready("mail"))
	if got := m.status.Runtime.History; got[0].Applied == nil || !got[0].Applied.Time.Equal(m.now) ||
		!got[1].Applied.Equal(&applied) {
		t.Errorf("got second bundle applied at %v and first at %v, want %s and %v", got[0].Applied, got[1].Applied,
			m.now, applied)
	}
	broken := at(ready("keda"), "2.0.0")
	broken.State, broken.Message = v1beta2.StateError, "crashes"
	m.report("second", broken, ready("mail"))
	m.publish("third", kedaTo("3.0.0"))
	m.wantHistory("9  applied:false", "8 Error applied:true", "7 Ready applied:true keda →1.0.0 mail →1.0.0")
}

func TestRefusedBundleIsRecordedWithKnownReason(t *testing.T) {
	for reason, want := range map[refusal.Reason]string{refusal.Downgrade: "Downgrade",
		"<script>": string(refusal.Other)} {
		m := member(t)
		m.publish("second", nothing)
		report := *m.facts.Report
		report.Refused = []bundle.RefusedBundle{
			{Digest: digest.FromString("second"), Reason: reason, Detail: "hostile"}, {
				Digest: digest.FromString("never published"), Reason: reason,
			},
		}
		m.facts.Report = &report
		if got := m.poll().status.Runtime.History[0]; got.Refused != want || got.Applied != nil {
			t.Errorf("reason %s: got %+v, want refused %s", reason, got, want)
		}
		m.report("second", ready("keda"), ready("mail"))
		if got := m.status.Runtime.History[0]; got.Refused != "" || got.Applied == nil {
			t.Errorf("reason %s, applied later: got %+v", reason, got)
		}
	}
}

func TestRefusalsAreRecordedOnlyWithAPublishedBundle(t *testing.T) {
	m := member(t)
	m.publish("second", nothing)
	report := *m.facts.Report
	report.Refused = []bundle.RefusedBundle{{Digest: digest.FromString("second"), Reason: refusal.Downgrade}}
	m.facts.Report = &report
	for _, isPublished := range []bool{true, false} {
		status := *m.status.DeepCopy()
		if !isPublished {
			status.Runtime.Published = nil
		}
		recordOutcomes(status.Runtime.History, status, m.facts)
		if got := status.Runtime.History[0].Refused != ""; got != isPublished {
			t.Errorf("published bundle %t: got a recorded refusal %t", isPublished, got)
		}
	}
}

func TestHistoryCausesNoExtraStatusUpdate(t *testing.T) {
	m := member(t)
	m.report("newest", ready("keda"), ready("mail"))
	settled := *m.status.DeepCopy()
	m.later(time.Second)
	if NeedsUpdate(settled, m.status) {
		t.Errorf("an unchanged runtime causes a status update: %s", m.remembered())
	}
	old := *settled.DeepCopy() // written by a publisher without a history
	old.Runtime.History = nil
	if m.status = old; NeedsUpdate(old, m.poll().status) {
		t.Errorf("an upgrade of the publisher causes a status update: %s", m.remembered())
	}
}

func TestHistoryIsLimitedInLengthAndSize(t *testing.T) {
	m := member(t)
	for i := range 2 * maxHistory {
		m.publish(fmt.Sprint("bundle ", i), nothing)
		p := m.status.Runtime.Published
		p.Commit = strings.Repeat("c", 40)
	}
	if got := len(m.status.Runtime.History); got != maxHistory {
		t.Fatalf("got %d bundles in the history, want %d", got, maxHistory)
	}
	from, to := &v1beta2.PublishedBundle{Versions: map[string]string{}}, &v1beta2.PublishedBundle{
		Epoch: 1, Sequence: 1795400000000, Digest: digest.FromString("x").String(), Time: metav1.NewTime(noon),
		Commit: strings.Repeat("c", 40), Versions: map[string]string{}}
	for i := range 20 {
		name := fmt.Sprintf("module-%02d", i)
		from.Versions[name], to.Versions[name] = "1.0.0", "1.1.0"
	}
	record := newRecord(from, to)
	applied := metav1.NewTime(noon)
	record.Applied, record.State = &applied, v1beta2.StateReady
	if len(record.Changes) != maxVersionChanges || record.More != 20-maxVersionChanges {
		t.Errorf("20 changes: got %d listed and %d counted", len(record.Changes), record.More)
	}
	data, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	record.Changes, record.More, record.Commit = record.Changes[:1], 0, ""
	usual, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("largest record: %d bytes, usual record: %d bytes", len(data), len(usual))
	if len(data) > 480 || len(usual) > 300 {
		t.Errorf("got records of %d and %d bytes, want at most 480 and 300", len(data), len(usual))
	}
}
