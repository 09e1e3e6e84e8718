package command

import (
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func TestSuspendingAndResumingARuntime(t *testing.T) {
	type pairs = map[string]string
	suspending := func(reason string) func(*v1beta2.Kyma) (string, error) {
		return func(k *v1beta2.Kyma) (string, error) { return suspend(k, reason) }
	}
	skipped := pairs{v1beta2.LabelSkipReconciliation: v1beta2.True}
	for name, c := range map[string]struct {
		labels, annotations pairs
		deleted             bool
		do                  func(*v1beta2.Kyma) (string, error)
		told, refuse        string
		wantLabels, want    pairs
	}{
		"suspend": {do: suspending(""), told: "is suspended", wantLabels: skipped},
		"suspend, and say why": {labels: pairs{"a": "b"}, do: suspending("a\x1b[2J line\nmore"), told: "is suspended",
			wantLabels: pairs{"a": "b", v1beta2.LabelSkipReconciliation: v1beta2.True}, want: pairs{v1beta2.AnnotationSuspendReason: `a\x1b[2J line more`}},
		"suspend what is": {labels: maps.Clone(skipped), do: suspending("again"), told: "was suspended already", wantLabels: skipped,
			want: pairs{v1beta2.AnnotationSuspendReason: "again"}},
		"suspend what is taken over": {labels: pairs{v1beta2.LabelTakeover: v1beta2.TakeoverActive}, do: suspending(""), refuse: "it is taken over from lifecycle-manager"},
		"suspend what is deleted":    {deleted: true, do: suspending(""), refuse: "is being deleted"},
		"suspend for a long reason":  {do: suspending(strings.Repeat("x", 2<<10)), refuse: "--reason: want at most 1024 bytes, got 2048"},
		"resume": {labels: pairs{"a": "b", v1beta2.LabelSkipReconciliation: v1beta2.True}, annotations: pairs{v1beta2.AnnotationSuspendReason: "why"},
			do: resume, told: "is resumed", wantLabels: pairs{"a": "b"}},
		"resume what is not suspended": {do: resume, told: "was not suspended"},
		"resume what is taken over": {labels: pairs{v1beta2.LabelTakeover: v1beta2.TakeoverFinished, v1beta2.LabelSkipReconciliation: v1beta2.True}, do: resume,
			refuse: "it is not suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations}}
			if c.deleted {
				kyma.DeletionTimestamp = new(metav1.NewTime(time.Unix(0, 0)))
			}
			told, err := c.do(kyma)
			if c.refuse != "" {
				if err == nil || !strings.Contains(err.Error(), c.refuse) {
					t.Errorf("got %v, want %q", err, c.refuse)
				}
				return
			}
			if err != nil || !strings.HasPrefix(told, c.told) || !maps.Equal(kyma.Labels, c.wantLabels) || !maps.Equal(kyma.Annotations, c.want) {
				t.Errorf("%q, %v: labels %v, annotations %v", told, err, kyma.Labels, kyma.Annotations)
			}
		})
	}
}

func TestALookAtASuspendedRuntimeIsNotAskedFor(t *testing.T) {
	kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1beta2.LabelSkipReconciliation: v1beta2.True}}}
	if err := request(kyma, noon); err == nil || !strings.Contains(err.Error(), "run `kcp-publisher resume` first") || len(kyma.Annotations) > 0 {
		t.Errorf("got %v, annotations %v", err, kyma.Annotations)
	}
	kyma.Labels = nil
	if err := request(kyma, noon); err != nil || plan.Requested(kyma) != "2026-05-04T12:00:00Z" {
		t.Errorf("got %v, annotations %v", err, kyma.Annotations)
	}
}
