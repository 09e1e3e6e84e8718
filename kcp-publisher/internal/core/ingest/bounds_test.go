package ingest

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/schema/kymaschema"
)

func TestConditionMessagesAreBounded(t *testing.T) {
	report := &bundle.AcceptedReport{
		Report: bundle.Report{
			Refused: []bundle.RefusedBundle{{Reason: refusal.Expired, Detail: strings.Repeat("x", 60_000)}},
		},
	}
	status := NextStatus(v1beta2.KymaStatus{}, Facts{Report: report, SilenceTimeout: time.Hour},
		time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range status.Conditions {
		if len(c.Message) > 32_768 {
			t.Errorf("message of condition %s is %d bytes, want at most 32768", c.Type, len(c.Message))
		}
	}
}

// The error must start with the path of the invalid field.
func TestCheckRefusesReportsThatCannotBeStored(t *testing.T) {
	schema, err := kymaschema.New()
	if err != nil {
		t.Fatal(err)
	}
	report := healthy().facts.Report.Report
	report.Kyma = &bundle.ReportedKyma{Spec: v1beta2.KymaSpec{Channel: "regular"}}
	if err := Check(schema, report); err != nil {
		t.Errorf("valid report: %v", err)
	}
	report.Kyma.Spec.Channel = "Ü!"
	if err := Check(schema, report); err == nil || !strings.HasPrefix(err.Error(), "spec.channel: ") {
		t.Errorf("report with an invalid channel: got %v, want an error about spec.channel", err)
	}
	report.Kyma, report.Modules[0].State = nil, "Splendid"
	if err := Check(schema, report); err == nil || !strings.HasPrefix(err.Error(), "status.modules[0].state: ") {
		t.Errorf("report with an invalid module state: got %v, want an error about status.modules[0].state", err)
	}
}

func TestUnwritableStatusIsNotHealthy(t *testing.T) {
	before := healthy().status()
	refused := *before.DeepCopy()
	refused.Runtime.Published.Sequence++
	after := RefusedStatus(before, refused, 3, errors.New("Kyma one is invalid:\x1b[2J "+strings.Repeat("x", 10_000)),
		noon)
	condition := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReporting)
	if after.State != v1beta2.StateWarning || condition.Reason != v1beta2.ReasonReportRefused ||
		condition.Status != metav1.ConditionFalse || len(condition.Message) > 1024 ||
		strings.Contains(condition.Message, "\x1b") {
		t.Errorf("got state %s and condition %+v, want Warning and a bounded message", after.State, condition)
	}
	refused.Runtime.Reasons = &v1beta2.RuntimeReasons{Report: "Other"}
	if !reflect.DeepEqual(after.Runtime, refused.Runtime) || !reflect.DeepEqual(after.Modules, before.Modules) {
		t.Errorf("the recorded runtime or modules changed: %+v", after)
	}
	if again := RefusedStatus(after, refused, 3, errors.New("Kyma one is invalid:\x1b[2J "+strings.Repeat("x", 10_000)),
		noon.Add(time.Hour)); !reflect.DeepEqual(again, after) {
		t.Errorf("the same error changed the status: %s", outline(again))
	}
}
