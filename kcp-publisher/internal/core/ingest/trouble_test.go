package ingest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func TestWriteFailuresInRuntimeAreReported(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	published := &plan.PublishedBundle{Digest: "sha256:new", Predicate: bundle.Predicate{Sequence: 7}}
	status := func(before v1beta2.KymaStatus, observed string, trouble *bundle.ReportedTrouble) v1beta2.KymaStatus {
		report := &bundle.AcceptedReport{
			Report: bundle.Report{Time: now, Trouble: trouble, Observed: &bundle.Observed{Digest: published.Digest}},
		}
		if observed == "old" {
			report.Observed.Digest = "sha256:old"
		}
		RecordReport(&before, *report, "", "", now)
		return NextStatus(before, Facts{Published: published, Report: report, SilenceTimeout: time.Hour}, now)
	}
	messageOf := func(s v1beta2.KymaStatus, kind string) string {
		if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
			return string(c.Status) + " " + c.Reason + ": " + c.Message
		}
		return ""
	}

	fine := status(v1beta2.KymaStatus{}, "new", nil)
	require.Equal(t, v1beta2.StateReady, fine.State)
	require.Empty(t, messageOf(fine, v1beta2.ConditionSynced), "condition Synced of a runtime without a write failure")

	refused := status(
		fine,
		"new",
		&bundle.ReportedTrouble{
			Reason: "unknown reason", Message: "ModuleTemplate x is denied", Catalog: true,
		},
	)
	require.Equal(t, v1beta2.StateWarning, refused.State)
	require.Equal(t, "False ObjectRefused: ModuleTemplate x is denied", messageOf(refused, v1beta2.ConditionSynced))
	require.Equal(t, "False NotReady: ModuleTemplate x is denied", messageOf(refused, v1beta2.ConditionReady))
	require.Contains(t, messageOf(refused, v1beta2.ConditionModuleCatalog), "False NotReady")

	full := status(refused, "old", &bundle.ReportedTrouble{Reason: v1beta2.ReasonStorageRefused, Message: "quota"})
	require.Equal(t, "False StorageRefused: quota", messageOf(full, v1beta2.ConditionAccepted))
	require.Equal(t, "False StorageRefused: quota", messageOf(full, v1beta2.ConditionSynced))

	require.Equal(t, "True Synced: the runtime has written all objects from the bundle",
		messageOf(status(full, "new", nil), v1beta2.ConditionSynced))
}
