package ingest

import (
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestAHostileReportCannotMakeAStatusThatTheAPIRefuses(t *testing.T) {
	report := &bundle.AcceptedReport{Report: bundle.Report{Refused: []bundle.RefusedBundle{{Reason: refusal.Expired, Detail: strings.Repeat("x", 60_000)}}}}
	status := Status(v1beta2.KymaStatus{}, Facts{Report: report, Silence: time.Hour}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range status.Conditions {
		if len(c.Message) > 32_768 {
			t.Errorf("condition %s has a message of %d bytes", c.Type, len(c.Message))
		}
	}
}
