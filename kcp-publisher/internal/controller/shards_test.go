package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

func TestShardResolvesKymasOnlyForAnAnnouncedState(t *testing.T) {
	snapshot, err := catalog.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	announced, known := shard.Announcement{State: "planned"}, true
	s := &RemotePlanner{RemoteOptions: RemoteOptions{
		Announced: func() (shard.Announcement, bool) { return announced, known },
	}}
	c := &Catalog{Changes: NewChanges()}
	c.snapshot.Store(snapshot)
	k := &Kymas{Catalog: c, Planner: s, Rollouts: &Rollouts{Catalog: c, remote: s}, Watchers: &Watchers{}}
	k.Watchers.accepted.Store(&[]bundle.Watcher{})
	k.Rollouts.view.Store(&plan.View{Catalog: snapshot, State: "planned"})
	if k.currentView() == nil || s.unannouncedFor() != 0 {
		t.Fatal("Kymas are not resolved although the state is planned")
	}
	for name, change := range map[string]func(){
		"planner announced another state":          func() { announced.State = "another" },
		"announcement is outdated":                 func() { known = false },
		"announcement without a state is outdated": func() { known = false; announced.State = "" },
	} {
		before, was := announced, known
		if change(); k.currentView() != nil || k.Rollouts.View() != nil {
			t.Errorf("%s: got a view for resolving Kymas, want none", name)
		}
		if s.unplannedSince.IsZero() {
			t.Errorf("%s: the start of the unplanned time is not recorded", name)
		}
		announced, known = before, was
	}
	if k.currentView() == nil || s.unannouncedFor() != 0 {
		t.Error("Kymas are not resolved after the state is planned again")
	}
	if whole := (&Rollouts{}); !whole.remote.isPlanned("") || (*RemotePlanner)(nil).unannouncedFor() != 0 {
		t.Error("a publisher of the whole fleet waits for a planner")
	}
}

func TestEditedShardLabelDoesNotMoveARuntime(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Labels = map[string]string{}
	at := shard.ShardOf(plan.ClaimedRuntimeID(kyma), 3)
	for number := range 3 {
		s, share := &RemotePlanner{fleet: fleetstate.New()}, shard.Share{Number: number, Count: 3}
		kyma.Labels[v1beta2.LabelShard] = shard.LabelValue(number, 3) // as if a user edited it
		if got := len(s.ownKymas(share, []v1beta2.Kyma{*kyma})) == 1; got != (number == at) {
			t.Errorf("shard %d, runtime of shard %d: got owned %t", number, at, got)
		}
	}
	if len((*RemotePlanner)(nil).ownKymas(shard.Share{}, []v1beta2.Kyma{*kyma})) != 1 {
		t.Error("a publisher of the whole fleet does not own a runtime")
	}
	// The Kyma's original runtime ID must determine its shard.
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: "began"}
	if shard.ShardOf(plan.ClaimedRuntimeID(kyma), 1000) != shard.ShardOf("began", 1000) {
		t.Error("an edited runtime label moves the Kyma to another shard")
	}
}

// If a shard's report times are missing or old, its runtimes must not count as silent.
func TestPlannerReceivesReportTimesOfShards(t *testing.T) {
	content := func(text string) string { return "sha256:" + strings.Repeat(text, 32) }
	now := noon.Add(2 * time.Hour)
	kyma := kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: "one", ReportSequence: 1, Observed: &v1beta2.ObservedBundle{
		Time: metav1.NewTime(noon), Heard: new(metav1.NewTime(noon)), Report: content("0a"),
	}}
	r := newReports(store.NewMemory(), func() time.Time { return now }, fleetstate.New(), NewSlimmer())
	at := now.Add(-time.Minute)
	times := func(content string) *shard.ReportTimes {
		accepted := bundle.AcceptedReport{Report: bundle.Report{Runtime: "one", Sequence: 2, Time: at}}
		accepted.Content = digest.Digest(content)
		r.storeReport(kyma, fleetstate.Report{Accepted: &accepted, ArrivedAt: at})
		data, err := r.collectTimes().Encode()
		if err != nil {
			t.Fatal(err)
		}
		h, err := shard.DecodeReportTimes(data)
		if err != nil {
			t.Fatal(err)
		}
		return &h
	}
	for name, c := range map[string]struct {
		times *shard.ReportTimes
		now   time.Time
		want  silence.LastReport
	}{
		"no announcement":          {nil, now, silence.LastReport{KnownAt: noon, PossibleAt: now}},
		"report without changes":   {times(content("0a")), now, silence.LastReport{KnownAt: at}},
		"report not in the status": {times(content("0b")), now, silence.LastReport{KnownAt: noon, PossibleAt: at}},
		"outdated message": {
			times(content("0a")), now.Add(time.Hour), silence.LastReport{KnownAt: at, PossibleAt: now.Add(time.Hour)},
		},
		"report not read by the shard yet": {
			&shard.ReportTimes{At: now, Began: now.Add(-time.Second)}, now, silence.LastReport{
				KnownAt: noon, PossibleAt: now.Add(-time.Second),
			},
		},
		"message older than the status": {
			&shard.ReportTimes{At: now, Began: now,
				Kymas: map[string]shard.ReportTime{"one": shard.NewReportTime(noon.Add(-time.Hour),
					noon.Add(-time.Hour),
					content("0a"))}}, now, silence.LastReport{KnownAt: noon},
		},
	} {
		got := lastReportOf(kyma, c.times, c.now)
		if !got.KnownAt.Equal(c.want.KnownAt) || !got.PossibleAt.Equal(c.want.PossibleAt) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Two Kymas have the same runtime ID. A shard whose cache contains only one of these Kymas would treat that Kyma as the
// owner.
func TestOwningKymaGetsItsShardLabelFirst(t *testing.T) {
	owner, second := kymaOf("owner"), kymaOf("second")
	owner.CreationTimestamp, second.CreationTimestamp = metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Hour))
	owner.Labels, second.Labels = map[string]string{v1beta2.LabelRuntimeID: "r"},
		map[string]string{v1beta2.LabelRuntimeID: "r"}
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(owner, second).
		WithIndex(&v1beta2.Kyma{}, indexRuntime,
			func(o client.Object) []string { return []string{plan.ClaimedRuntimeID(o.(*v1beta2.Kyma))} }).Build()
	labels := &shardLabels{api, 3}
	labelOf := func(kyma *v1beta2.Kyma) string {
		t.Helper()
		result, err := labels.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(kyma)})
		if err == nil {
			err = api.Get(t.Context(), client.ObjectKeyFromObject(kyma), kyma)
		}
		if label := kyma.Labels[v1beta2.LabelShard]; err != nil || (label == "") != (result.RequeueAfter > 0) {
			t.Fatalf("got label %q, result %+v, error %v, want either a label or a requeue", label, result, err)
		}
		return kyma.Labels[v1beta2.LabelShard]
	}
	want := shard.LabelValue(shard.ShardOf("r", 3), 3)
	if got := labelOf(second); got != "" {
		t.Errorf("second Kyma before the owner is labeled: got label %q, want none", got)
	}
	for _, kyma := range []*v1beta2.Kyma{owner, second} {
		if got := labelOf(kyma); got != want {
			t.Errorf("%s has label %q, want %q", kyma.Name, got, want)
		}
	}
}

// A Kyma without bundles, or a Kyma that belongs to another shard, must not have pending work or a backoff.
func TestSuspendedRuntimesHaveNoPendingWork(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 2)
	k, key := w.kymas, client.ObjectKey{Namespace: "kcp-system", Name: "runtime-001"}
	t.Cleanup(k.Retire)
	w.settle()
	counted := 0
	k.fleet.ForEach(func(_ fleetstate.Key, r *fleetstate.Runtime) {
		if len(r.CountedSeries.Series) > 0 {
			counted++
		}
	})
	if known := k.fleet.Get(key).Report.Digest != ""; !known || counted != 2 {
		t.Fatalf("the report is known: %t, %d runtimes are counted, want 2", known, counted)
	}
	kyma := &v1beta2.Kyma{}
	check := func(name string, change func()) {
		t.Helper()
		w.must(w.api.Get(t.Context(), key, kyma))
		change()
		k.fleet.FinishPending(key, false, k.Now())
		k.fleet.Edit(key, func(r *fleetstate.Runtime) { r.Backoff = fleetstate.NewBackoff(k.Now()) })
		_, err := k.Reconcile(quiet(t.Context()), ctrl.Request{NamespacedName: key})
		w.must(err)
		pending, failing := k.fleet.Get(key).Pending, k.fleet.CountFailing()
		if pending != (fleetstate.PendingWork{}) || failing != 0 {
			t.Errorf("%s: got pending work %+v and %d failing runtimes, want none", name, pending, failing)
		}
	}
	check("suspended Kyma", func() {
		kyma.Labels = map[string]string{v1beta2.LabelSkipReconciliation: v1beta2.True}
		w.must(w.api.Update(t.Context(), kyma))
	})
	check("refused Kyma", func() {
		kyma.Labels, kyma.Annotations = nil, map[string]string{v1beta2.AnnotationCarried: "invalid"}
		w.must(w.api.Update(t.Context(), kyma))
	})
	check("deleted Kyma with the finalizer of another client", func() {
		kyma.Annotations, kyma.Finalizers = nil, []string{"example.com/other"}
		w.must(w.api.Update(t.Context(), kyma))
		w.must(w.api.Delete(t.Context(), kyma))
	})
	check("Kyma of another shard", func() {
		k.Share = shard.Share{Number: 1 - shard.ShardOf(plan.ClaimedRuntimeID(kyma), 2), Count: 2}
	})
	k.fleet.ForEach(func(kept fleetstate.Key, r *fleetstate.Runtime) {
		if kept == key {
			t.Errorf("Kyma of another shard: got record %+v, want none", r)
		}
	})
}
