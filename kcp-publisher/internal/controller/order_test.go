package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func TestRuntimesThatARolloutAwaitsAreReconciledFirst(t *testing.T) {
	k := &Kymas{
		Rollouts: &Rollouts{}, Options: Options{PollInterval: 30 * time.Second}, Now: func() time.Time { return noon },
	}
	k.Rollouts.view.Store(&plan.View{AwaitedRuntimes: map[string]bool{"canary": true}})
	q := priorityqueue.New[ctrl.Request]("order")
	defer q.ShutDown()
	request := func(name string) ctrl.Request {
		return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "kcp-system", Name: name}}
	}
	q.AddWithOpts(priorityqueue.AddOpts{Priority: k.priorityOf(kymaOf("polled"))}, request("polled"))
	for _, name := range []string{"changed", "canary"} {
		k.priorityHandler().Generic(t.Context(), event.GenericEvent{Object: kymaOf(name)}, q)
	}
	var got []string
	for range 3 {
		next, _, _ := q.GetWithPriority()
		got = append(got, next.Name)
	}
	if fmt.Sprint(got) != "[canary changed polled]" {
		t.Errorf("got order %v, want canary, changed, polled", got)
	}
}

// The test queues a poll of one runtime while notifications about other runtimes arrive constantly.
func TestConstantNotificationsDoNotBlockPolls(t *testing.T) {
	k := &Kymas{Rollouts: &Rollouts{}}
	k.Rollouts.view.Store(&plan.View{AwaitedRuntimes: map[string]bool{"canary": true}})
	q := priorityqueue.New[ctrl.Request]("order")
	defer q.ShutDown()
	named := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: "kcp-system", Name: name}
	}
	poll := func(runtime string) {
		k.priorityHandler().Generic(t.Context(), event.GenericEvent{Object: newNotified(named(runtime), runtime)}, q)
	}
	poll("before")
	q.AddWithOpts(priorityqueue.AddOpts{Priority: k.priorityOf(kymaOf("polled"))},
		ctrl.Request{NamespacedName: named("polled")})
	poll("after")
	poll("canary")
	k.priorityHandler().Generic(t.Context(), event.GenericEvent{Object: kymaOf("changed")}, q)
	var got []string
	for range 5 {
		next, _, _ := q.GetWithPriority()
		got = append(got, next.Name)
	}
	if fmt.Sprint(got) != "[canary changed before polled after]" {
		t.Errorf("got order %v, want canary, changed, before, polled, after", got)
	}
}

func TestPollIntervalDependsOnRolloutsAndIdleRuntimes(t *testing.T) {
	now := noon
	k := &Kymas{
		Rollouts: &Rollouts{}, Options: Options{PollInterval: 30 * time.Second}, Now: func() time.Time { return now },
	}
	if wait := k.pollInterval(kymaOf("one")); wait != 30*time.Second {
		t.Errorf("poll interval before the first view: got %s, want 30s", wait)
	}
	for awaited, want := range map[int]time.Duration{1: 5 * time.Second, 100: 5 * time.Second, 200: 10 * time.Second,
		10_000: 30 * time.Second} {
		view := &plan.View{AwaitedRuntimes: map[string]bool{}}
		for i := range awaited {
			view.AwaitedRuntimes[fmt.Sprint("r-", i)] = true
		}
		k.Rollouts.view.Store(view)
		if wait := k.pollInterval(kymaOf("r-0")); wait != want {
			t.Errorf("poll interval with %d awaited runtimes: got %s, want %s", awaited, wait, want)
		}
		if wait := k.pollInterval(kymaOf("another")); wait != 30*time.Second {
			t.Errorf("poll interval of a runtime that is not awaited: got %s, want 30s", wait)
		}
	}
	for interval, want := range map[time.Duration]time.Duration{time.Second: 2 * time.Second,
		30 * time.Second: time.Minute, 45 * time.Second: time.Minute, 5 * time.Minute: 5 * time.Minute} {
		k := &Kymas{Rollouts: &Rollouts{}, Options: Options{PollInterval: interval}, Now: k.Now}
		k.Rollouts.view.Store(&plan.View{AwaitedRuntimes: map[string]bool{"canary": true}})
		if wait := k.pollInterval(restingKyma("one")); wait != want {
			t.Errorf("poll interval of an idle runtime: got %s, want %s", wait, want)
		}
		if wait := k.pollInterval(restingKyma("canary")); wait != interval/awaitedPolls {
			t.Errorf("poll interval of an awaited idle runtime: got %s, want %s", wait, interval/awaitedPolls)
		}
		for due, want := range map[bool]time.Duration{false: interval / 2, true: 2 * want} {
			if fresh := k.maxReportAge(restingKyma("one"), due); fresh != want {
				t.Errorf("due %v: the report of an idle runtime is fresh for %s, want %s", due,
					fresh, want)
			}
		}
	}
	within := func(result ctrl.Result, want time.Duration) bool {
		return result.RequeueAfter >= want*8/10 && result.RequeueAfter <= want*12/10
	}
	if result := k.nextPoll(kymaOf("another"), now, time.Time{}); !within(result, 30*time.Second) {
		t.Errorf("next read after a read now: got %s, want about 30s", result.RequeueAfter)
	}
	if result := k.nextPoll(kymaOf("another"), now.Add(-20*time.Second), time.Time{}); !within(result, 10*time.Second) {
		t.Errorf("next read after a read 20 seconds ago: got %s, want about 10s", result.RequeueAfter)
	}
	if result := k.nextPoll(kymaOf("another"), now, now.Add(7*time.Second)); result.RequeueAfter != 7*time.Second {
		t.Errorf("runtime that can become silent in 7s: got next reconciliation after %s, want 7s", result.RequeueAfter)
	}
	if result := k.nextPoll(kymaOf("another"), now.Add(-time.Hour), time.Time{}); !within(result, statusDelay) {
		t.Errorf("next read after a read an hour ago: got %s, want %s", result.RequeueAfter, statusDelay)
	}
}

func restingKyma(runtime string) *v1beta2.Kyma {
	kyma := kymaOf(runtime)
	kyma.Status.State = v1beta2.StateReady
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{
		Published: &v1beta2.PublishedBundle{Digest: "sha256:a"}, Observed: &v1beta2.ObservedBundle{Digest: "sha256:a"},
	}
	return kyma
}

func TestUnchangedRolloutsDoNotReconcileAllKymas(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 3)
	w.kymas.Rollouts.lastReport = w.kymas.reports.lastReport
	w.settle()
	poll := func() *plan.View {
		_, err := w.kymas.Rollouts.Reconcile(quiet(t.Context()), ctrl.Request{})
		w.must(err)
		return w.kymas.Rollouts.View()
	}
	if before := poll(); before == nil || poll() != before {
		t.Error("a new view is in use without a change, so all Kymas are reconciled again")
	}
}

func TestWorkStaysPendingUntilPublishedOrDeleted(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 3)
	w.must(w.api.Delete(t.Context(), w.policy()))
	w.settle()
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "kcp-system", Name: w.names[1]}}
	poll := func(place store.Store) {
		t.Helper()
		w.now = w.now.Add(10 * w.kymas.PollInterval)
		w.kymas.fleet.FinishPending(request.NamespacedName, false, w.now)
		w.kymas.reports.place = place
		_, err := w.kymas.Reconcile(quiet(t.Context()), request)
		w.must(err)
	}
	working := w.kymas.reports.place
	away := asking(t, answers(http.StatusBadGateway)).place
	w.kymas.backoff.checkRegistry = func(context.Context) error { return errors.New("away") }
	poll(away)
	w.kymas.backoff.checkRegistry = nil
	if !w.kymas.fleet.TakePending(request.NamespacedName) {
		t.Error("the pending work was lost while the registry was unavailable")
	}
	w.now = w.now.Add(time.Hour)
	poll(working)
	if w.kymas.fleet.TakePending(request.NamespacedName) {
		t.Error("the work is still pending after a successful pass")
	}
	request.Name = "gone"
	if poll(working); w.kymas.fleet.TakePending(request.NamespacedName) {
		t.Error("a deleted Kyma has pending work")
	}
}

func TestPromotionIsPublishedBeforeReportsAreRead(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 3)
	w.must(w.api.Delete(t.Context(), w.policy()))
	w.settle()
	w.promote("1.1.0")
	ctx := quiet(t.Context())
	_, err := w.kymas.Catalog.Reconcile(ctx, ctrl.Request{})
	w.must(err)
	_, err = w.kymas.Rollouts.Reconcile(ctx, ctrl.Request{})
	w.must(err)
	w.now = w.now.Add(w.kymas.PollInterval / 2)
	for _, name := range w.names[1:] {
		request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "kcp-system", Name: name}}
		before := w.kymas.fleet.Get(request.NamespacedName).Report.AskedAt
		result, err := w.kymas.Reconcile(ctx, request)
		w.must(err)
		if asked := w.kymas.fleet.Get(request.NamespacedName).Report.AskedAt; !asked.Equal(before) ||
			result.RequeueAfter > time.Second || *result.Priority != priorityRoutine {
			t.Errorf("%s: got read of the report at %s, want the previous read at %s; result %+v", name, asked,
				before, result)
		}
		_, err = w.kymas.Reconcile(ctx, request)
		w.must(err)
		if asked := w.kymas.fleet.Get(request.NamespacedName).Report.AskedAt; !asked.Equal(w.now) {
			t.Errorf("%s: the report was not read after the bundle was published", name)
		}
	}
	w.agents()
	if pushes, _ := w.counts(); pushes == 0 || w.digests["runtime-001"] == "" {
		t.Error("nothing was published")
	}
}
