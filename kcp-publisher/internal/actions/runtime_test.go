package actions_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func TestSuspendAndResumeChangeLabelAndReason(t *testing.T) {
	type pairs = map[string]string
	skipped := pairs{v1beta2.LabelSkipReconciliation: v1beta2.True}
	for name, c := range map[string]struct {
		labels, annotations pairs
		deleted             bool
		do                  actions.Runtime
		effect, refuse      string
		wantLabels, want    pairs
	}{
		"suspend": {do: actions.Suspend(""), effect: "is suspended", wantLabels: skipped},
		"suspend with a reason": {labels: pairs{"a": "b"}, do: actions.Suspend("a\x1b[2J line\nmore"),
			effect:     "is suspended",
			wantLabels: pairs{"a": "b", v1beta2.LabelSkipReconciliation: v1beta2.True}, want: pairs{
				v1beta2.AnnotationSuspendReason: `a\x1b[2J line more`,
			}},
		"suspend a suspended runtime": {labels: maps.Clone(skipped), do: actions.Suspend("again"),
			effect: "was already suspended", wantLabels: skipped,
			want: pairs{v1beta2.AnnotationSuspendReason: "again"}},
		"suspend a suspended runtime without a reason": {labels: maps.Clone(skipped),
			annotations: pairs{v1beta2.AnnotationSuspendReason: "why"}, do: actions.Suspend(""),
			effect: "was already suspended", wantLabels: skipped, want: pairs{v1beta2.AnnotationSuspendReason: "why"}},
		"suspend with the reason of an earlier suspension": {
			annotations: pairs{"a": "b", v1beta2.AnnotationSuspendReason: "earlier"}, do: actions.Suspend(""),
			effect: "is suspended", wantLabels: skipped, want: pairs{"a": "b"}},
		"suspend during a takeover": {
			labels: pairs{v1beta2.LabelTakeover: v1beta2.TakeoverActive}, do: actions.Suspend(""),
			refuse: "the runtime is being taken over",
		},
		"suspend a deleted Kyma": {deleted: true, do: actions.Suspend(""), refuse: "is being deleted"},
		"suspend with a reason that is too long": {
			do:     actions.Suspend(strings.Repeat("x", 2<<10)),
			refuse: "the reason is 2048 bytes, must be at most 1024",
		},
		"resume": {labels: pairs{"a": "b", v1beta2.LabelSkipReconciliation: v1beta2.True},
			annotations: pairs{v1beta2.AnnotationSuspendReason: "why"},
			do:          actions.Resume(), effect: "is resumed", wantLabels: pairs{"a": "b"}},
		"resume a runtime that is not suspended": {do: actions.Resume(), effect: "was not suspended"},
		"resume during a takeover": {labels: pairs{v1beta2.LabelTakeover: v1beta2.TakeoverFinished,
			v1beta2.LabelSkipReconciliation: v1beta2.True}, do: actions.Resume(),
			refuse: "the runtime is not suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations}}
			if c.deleted {
				kyma.DeletionTimestamp = new(metav1.NewTime(time.Unix(0, 0)))
			}
			effect, err := c.do.Change(kyma)
			if c.refuse != "" {
				if err == nil || !strings.Contains(err.Error(), c.refuse) {
					t.Errorf("got %v, want %q", err, c.refuse)
				}
				return
			}
			if err != nil || !strings.HasPrefix(effect, c.effect) || !maps.Equal(kyma.Labels, c.wantLabels) ||
				!maps.Equal(kyma.Annotations, c.want) {
				t.Errorf("got effect %q, error %v, labels %v, annotations %v", effect, err, kyma.Labels,
					kyma.Annotations)
			}
		})
	}
}

func TestSuspendedRuntimeIsNotReconciled(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	kyma := &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1beta2.LabelSkipReconciliation: v1beta2.True}},
	}
	if _, err := actions.Reconcile(now).Change(kyma); err == nil ||
		!strings.Contains(err.Error(), "run `kcp-publisher resume` first") ||
		len(kyma.Annotations) > 0 {
		t.Errorf("got %v, annotations %v", err, kyma.Annotations)
	}
	kyma.Labels = nil
	if _, err := actions.Reconcile(now).Change(kyma); err != nil || plan.ReconcileRequest(kyma) != "2026-05-04T12:00:00Z" {
		t.Errorf("got %v, annotations %v", err, kyma.Annotations)
	}
}

func TestRevokeAddsAgentKeyOnce(t *testing.T) {
	kyma := &v1beta2.Kyma{}
	if _, err := actions.Revoke().Change(kyma); err == nil {
		t.Error("Revoke succeeded for a runtime without a known key")
	}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Key: &v1beta2.RuntimeKey{Thumbprint: "new"}}
	kyma.Annotations = map[string]string{v1beta2.AnnotationRevokedKeys: "old"}
	for range 2 { // the second call must not change anything
		if _, err := actions.Revoke().Change(kyma); err != nil ||
			kyma.Annotations[v1beta2.AnnotationRevokedKeys] != "old new" {
			t.Errorf("got %v, annotations %v", err, kyma.Annotations)
		}
	}
}
