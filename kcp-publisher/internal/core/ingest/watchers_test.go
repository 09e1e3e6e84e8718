package ingest

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestWatcherConditionReportsOutcome(t *testing.T) {
	asked := func(f *Facts) { f.Published.State.Watchers = []bundle.Watcher{{Name: "keda"}} }
	troubled := func(f *Facts) {
		asked(f)
		f.Report.Watched = []bundle.ReportedWatch{
			{Watcher: "istio"},
			{Watcher: "keda", Trouble: "the agent may not list and watch kedas"},
		}
	}
	late := func(f *Facts) { asked(f); f.Report.Observed.Digest = earlier }
	before := metav1.Condition{
		Type:   v1beta2.ConditionSKRWebhook,
		Status: metav1.ConditionTrue,
		Reason: v1beta2.ReasonWatching,
	}
	for name, c := range map[string]struct {
		change  func(*Facts)
		before  []metav1.Condition
		status  metav1.ConditionStatus
		message string
	}{
		"all Watchers served": {
			asked, nil, metav1.ConditionTrue, "the runtime watches the objects of 1 Watchers",
		},
		"one Watcher not served": {
			troubled, []metav1.Condition{before}, metav1.ConditionFalse,
			"watcher keda: the agent may not list and watch kedas",
		},
		"latest bundle not reported": {
			late, nil, metav1.ConditionFalse, "waiting for the runtime to report bundle 7",
		},
		"latest bundle not reported, condition exists": {late, []metav1.Condition{before}, metav1.ConditionTrue, ""},
		"bundle without Watchers, no condition exists": {func(*Facts) {}, nil, "", ""},
		"bundle without Watchers, condition exists":    {func(*Facts) {}, []metav1.Condition{before}, "", ""},
		"no bundle published, condition exists": {
			func(f *Facts) { f.Published = nil }, []metav1.Condition{before}, metav1.ConditionTrue, "",
		},
	} {
		s := healthy().with(c.change)
		s.before.Conditions = c.before
		got := meta.FindStatusCondition(NextStatus(s.before, s.facts, noon).Conditions, v1beta2.ConditionSKRWebhook)
		switch {
		case (got == nil) != (c.status == ""):
			t.Errorf("%s: got condition %+v, want status %q", name, got, c.status)
		case got != nil && (got.Status != c.status || got.Message != c.message):
			t.Errorf("%s: got %s, %q, want %s, %q", name, got.Status, got.Message, c.status, c.message)
		}
	}
}
