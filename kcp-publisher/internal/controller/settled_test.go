package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

func TestReconcileWithPendingWorkIsRepeated(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	kyma := func() *v1beta2.Kyma {
		reportedAt := metav1.NewTime(now.Add(-time.Minute))
		k := &v1beta2.Kyma{}
		k.Status.Runtime = &v1beta2.RuntimeStatus{Observed: &v1beta2.ObservedBundle{Time: reportedAt,
			Heard: &reportedAt}}
		k.Status.Conditions = []metav1.Condition{{Type: v1beta2.ConditionReporting, Status: metav1.ConditionTrue}}
		return k
	}
	const interval = 30 * time.Second
	for what, c := range map[string]struct {
		change func(after *v1beta2.Kyma, facts *ingest.Facts, outcome *publish.Outcome)
		want   time.Time
	}{
		"no pending work": {
			func(*v1beta2.Kyma, *ingest.Facts, *publish.Outcome) {}, now.Add(settledPolls * interval),
		},
		"runtime can become silent": {
			func(_ *v1beta2.Kyma, f *ingest.Facts, _ *publish.Outcome) {
				f.SilenceTimeout = 2 * time.Minute
			}, now.Add(time.Minute),
		},
		"pushed bundle": {
			func(_ *v1beta2.Kyma, _ *ingest.Facts, o *publish.Outcome) { o.IsPushed = true }, time.Time{},
		},
		"unrecorded bundle": {
			func(_ *v1beta2.Kyma, _ *ingest.Facts, o *publish.Outcome) { o.IsUnrecorded = true }, time.Time{},
		},
		"registry deviates from the recorded bundle": {
			func(_ *v1beta2.Kyma, _ *ingest.Facts, o *publish.Outcome) { o.Deviation = &plan.Deviation{} }, time.Time{},
		},
		"problem of a module": {
			func(_ *v1beta2.Kyma, _ *ingest.Facts, o *publish.Outcome) {
				o.Problems = make([]bundle.Problem, 1)
			}, time.Time{},
		},
		"publish error": {
			func(_ *v1beta2.Kyma, f *ingest.Facts, _ *publish.Outcome) {
				f.PublishError = errors.New("no")
			}, time.Time{},
		},
		"Secrets error": {
			func(_ *v1beta2.Kyma, f *ingest.Facts, _ *publish.Outcome) {
				f.SecretsError = errors.New("no")
			}, time.Time{},
		},
		"refused report": {
			func(_ *v1beta2.Kyma, f *ingest.Facts, _ *publish.Outcome) {
				f.ReportRefused = &refusal.Error{}
			}, time.Time{},
		},
		"unread report": {
			func(_ *v1beta2.Kyma, f *ingest.Facts, _ *publish.Outcome) {
				f.ReportUnread = errors.New("no")
			}, time.Time{},
		},
		"deleted Kyma": {func(k *v1beta2.Kyma, _ *ingest.Facts, _ *publish.Outcome) {
			k.DeletionTimestamp = new(metav1.NewTime(now))
		}, time.Time{}},
		"changed status": {
			func(k *v1beta2.Kyma, _ *ingest.Facts, _ *publish.Outcome) {
				k.Status.State = v1beta2.StateReady
			}, time.Time{},
		},
	} {
		before, after, facts, outcome := kyma(), kyma(), ingest.Facts{SilenceTimeout: time.Hour}, publish.Outcome{}
		c.change(after, &facts, &outcome)
		if got := settledUntil(before, after, facts, outcome, now, interval); !got.Equal(c.want) {
			t.Errorf("%s: got %s, want %s", what, got, c.want)
		}
	}
	for polled, want := range map[time.Duration]time.Duration{time.Second: settledPolls * time.Second,
		time.Minute: maxSettled, time.Hour / 2: time.Hour / 2} {
		if got := settledUntil(kyma(), kyma(), ingest.Facts{SilenceTimeout: time.Hour}, publish.Outcome{}, now, polled).
			Sub(now); got != want {
			t.Errorf("poll interval %s: got %s, want %s", polled, got, want)
		}
	}
	silent := kyma()
	silent.Status.Conditions[0].Status = metav1.ConditionFalse
	awaited := kyma()
	awaited.Status.Runtime.Published = &v1beta2.PublishedBundle{Time: metav1.NewTime(now.Add(10*time.Second - time.Hour))}
	awaited.Status.Runtime.History = []v1beta2.BundleRecord{{Superseded: &v1beta2.BundleDifference{}}}
	if got := settledUntil(awaited, awaited, ingest.Facts{SilenceTimeout: time.Hour}, publish.Outcome{}, now,
		interval); !got.Equal(now.Add(10 * time.Second)) {
		t.Errorf("runtime that has not applied its bundle: got settled until %s, want 10 seconds", got)
	}
	if got := settledUntil(silent, silent, ingest.Facts{SilenceTimeout: time.Hour}, publish.Outcome{}, now,
		interval); !got.IsZero() {
		t.Errorf("a silent runtime: got %s, want zero", got)
	}
}

type noKymas struct{ client.Reader }

func (noKymas) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestChangeForAllKymasPreventsSkippedReconciles(t *testing.T) {
	c := &Catalog{Changes: NewChanges(), Reader: noKymas{}}
	k := &Kymas{Catalog: c}
	before := c.markedCount.Load()
	if err := c.reconcileAll(t.Context()); err != nil || c.markedCount.Load() == before {
		t.Errorf("a change to the catalog does not invalidate passes: %v", err)
	}
	before = c.markedCount.Load()
	if k.requestsForAll(t.Context(), nil); c.markedCount.Load() == before {
		t.Error("a change of the image pull Secret does not invalidate passes")
	}
}
