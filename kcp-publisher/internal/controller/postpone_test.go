package controller

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// requests counts the requests to a registry by HTTP method and kind of repository.
type requests struct {
	http.RoundTripper
	mu sync.Mutex
	by map[string]int
}

func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	about := "others"
	for _, kind := range []string{"runtimes", "reports"} {
		if strings.Contains(request.URL.Path, "/"+kind+"/") && strings.Contains(request.URL.Path, "/manifests/") {
			about = kind
		}
	}
	r.mu.Lock()
	r.by[request.Method+" "+about]++
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(request)
}

// taken returns the number of manifest requests by kind since the last call.
func (r *requests) taken() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.by
	r.by = map[string]int{}
	maps.DeleteFunc(was, func(what string, _ int) bool { return strings.HasSuffix(what, "others") })
	return was
}

// atRest returns an idle fleet with a real registry, and a counter of the registry's requests.
func atRest(t *testing.T, runtimes int) (*waves, *requests) {
	t.Helper()
	w, asked := newWaves(t, newSurroundings(t), runtimes), &requests{by: map[string]int{}}
	w.must(w.api.Delete(t.Context(), w.policy()))
	w.place = observedRegistry(t, func(to http.RoundTripper) http.RoundTripper {
		asked.RoundTripper = to
		return asked
	})
	w.restart()
	for range 6 {
		w.poll()
		w.agents()
	}
	w.poll()
	w.counts()
	asked.taken()
	return w, asked
}

func wantAsked(t *testing.T, what string, asked *requests, want map[string]int) {
	t.Helper()
	if got := asked.taken(); !maps.Equal(got, want) {
		t.Errorf("%s: got requests %v, want %v", what, got, want)
	}
}

func TestStartedPublisherMakesOneRequestPerIdleRuntime(t *testing.T) {
	const runtimes = 6
	w, asked := atRest(t, runtimes)
	w.restart()
	w.poll()
	wantAsked(t, "first pass", asked, map[string]int{"GET runtimes": runtimes})
	w.poll() // a reconcile with another trigger
	wantAsked(t, "second pass soon after", asked, map[string]int{})
	w.now = w.now.Add(maxRestingPoll)
	w.poll()
	wantAsked(t, "pass when a poll is due", asked, map[string]int{"GET reports": runtimes})
	if _, patches := w.counts(); patches != 0 {
		t.Errorf("the restart caused %d status writes, want 0", patches)
	}
	w.now = w.now.Add(w.kymas.PollInterval)
	w.poll()
	wantAsked(t, "next poll", asked, map[string]int{"HEAD reports": runtimes})
}

func TestStartedPublisherReadsTheReportsThatItNeeds(t *testing.T) {
	const runtimes = 4
	one := types.NamespacedName{Namespace: "kcp-system", Name: "runtime-001"}
	for what, c := range map[string]struct {
		change func(*waves)
		reads  int
	}{
		"unchanged Kyma": {func(*waves) {}, 0},
		"promotion":      {func(w *waves) { w.promote("1.1.0") }, runtimes},
		"notification":   {func(w *waves) { w.kymas.reports.recordNotification(one) }, 1},
		"changed Secret": {func(w *waves) { w.kymas.fleet.Edit(one, func(r *fleetstate.Runtime) { r.ChangedCount++ }) }, 1},
		"requested reconciliation": {func(w *waves) {
			w.changed(one, func(kyma *v1beta2.Kyma) {
				kyma.Annotations = map[string]string{v1beta2.AnnotationReconcileRequested: "now"}
			})
		}, 1},
		"new generation": {func(w *waves) { w.changed(one, func(kyma *v1beta2.Kyma) { kyma.Generation++ }) }, 1},
		"status with a problem": {func(w *waves) {
			kyma := &v1beta2.Kyma{}
			w.must(w.api.Get(w.Context(), one, kyma))
			kyma.Status.Conditions[0].Status = metav1.ConditionFalse
			w.must(w.api.Status().Update(w.Context(), kyma))
		}, 1},
		"replaced bundle": {func(w *waves) { w.replaceBundle(one.Name) }, 1},
	} {
		t.Run(what, func(t *testing.T) {
			w, asked := atRest(t, runtimes)
			w.restart()
			c.change(w)
			asked.taken()
			w.poll()
			if got := asked.taken(); got["GET reports"] != c.reads {
				t.Errorf("got requests %v, want %d reads of reports", got, c.reads)
			}
		})
	}
}

func (w *waves) changed(name types.NamespacedName, change func(*v1beta2.Kyma)) {
	w.Helper()
	kyma := &v1beta2.Kyma{}
	w.must(w.api.Get(w.Context(), name, kyma))
	change(kyma)
	w.must(w.api.Update(w.Context(), kyma))
}

func (w *waves) replaceBundle(runtime string) {
	w.Helper()
	to, err := w.place.Repository(w.Context(), bundle.DesiredRepository(runtime))
	w.must(err)
	empty := bundle.EmptyBlob()
	manifest, err := bundle.NewManifest(ocispec.Manifest{
		ArtifactType: bundle.ArtifactTypeContent, Config: empty.Descriptor,
		Layers: []ocispec.Descriptor{empty.Descriptor},
	})
	w.must(err)
	w.must(store.PushBlob(w.Context(), to, empty))
	w.must(store.PushManifest(w.Context(), to, manifest, bundle.TagDesired))
}

func TestReportReadIsPostponedOnlyForIdleRuntimes(t *testing.T) {
	w, _ := atRest(t, 2)
	resting := &v1beta2.Kyma{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "kcp-system", Name: w.names[1]}, resting))
	// The tested reconcile can use an older view than the current one.
	awaiting := &plan.View{AwaitedRuntimes: map[string]bool{plan.RuntimeID(resting): true}}
	noted := func(kyma *v1beta2.Kyma, ago time.Duration) {
		kyma.Status.Runtime.Observed.Heard = new(metav1.NewTime(w.now.Add(-ago)))
	}
	for what, c := range map[string]struct {
		change func(kyma *v1beta2.Kyma, facts *ingest.Facts, this *fleetstate.ReconcileInput)
		want   bool
	}{
		"idle runtime": {func(*v1beta2.Kyma, *ingest.Facts, *fleetstate.ReconcileInput) {}, true},
		"carried bundles": {
			func(_ *v1beta2.Kyma, f *ingest.Facts, _ *fleetstate.ReconcileInput) { f.IsCarried = true }, false,
		},
		"changed Secrets": {func(_ *v1beta2.Kyma, _ *ingest.Facts, l *fleetstate.ReconcileInput) { l.OwnChanges++ }, false},
		"changed spec":    {func(k *v1beta2.Kyma, _ *ingest.Facts, _ *fleetstate.ReconcileInput) { k.Generation++ }, false},
		"deleted Kyma": {
			func(k *v1beta2.Kyma, _ *ingest.Facts, _ *fleetstate.ReconcileInput) {
				k.DeletionTimestamp = new(metav1.Now())
			}, false,
		},
		"silent runtime": {func(k *v1beta2.Kyma, _ *ingest.Facts, _ *fleetstate.ReconcileInput) {
			k.Status.Conditions[0].Status = metav1.ConditionFalse
		}, false},
		"runtime is not ready": {
			func(k *v1beta2.Kyma, _ *ingest.Facts, _ *fleetstate.ReconcileInput) {
				k.Status.State = v1beta2.StateProcessing
			}, false,
		},
		"report recorded a day ago": {
			func(k *v1beta2.Kyma, _ *ingest.Facts, _ *fleetstate.ReconcileInput) { noted(k, plan.MaxUnrecorded) }, true,
		},
		"report recorded more than a day ago": {
			func(k *v1beta2.Kyma, _ *ingest.Facts, _ *fleetstate.ReconcileInput) {
				noted(k, plan.MaxUnrecorded+time.Second)
			}, false,
		},
		"awaited runtime": {
			func(_ *v1beta2.Kyma, _ *ingest.Facts, l *fleetstate.ReconcileInput) { l.View = awaiting }, false,
		},
		"bundle not applied yet": {func(k *v1beta2.Kyma, _ *ingest.Facts, _ *fleetstate.ReconcileInput) {
			k.Status.Runtime.Observed.Digest = "sha256:a"
		}, false},
	} {
		kyma, facts, this := resting.DeepCopy(), ingest.Facts{}, fleetstate.ReconcileInput{}
		c.change(kyma, &facts, &this)
		if got := w.kymas.canPostpone(kyma.DeepCopy(), kyma, facts, this); got != c.want {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
	changed := resting.DeepCopy()
	changed.Status.ActiveChannel = "another"
	if w.kymas.canPostpone(resting, changed, ingest.Facts{}, fleetstate.ReconcileInput{}) {
		t.Error("a Kyma whose status must be written can be postponed")
	}
}

func TestReportReadIsPostponedOnlyOnce(t *testing.T) {
	r := newReports(nil, func() time.Time { return noon }, fleetstate.New(), NewSlimmer())
	kyma := restingKyma("one")
	if got := r.postponeRead(kyma, noon.Add(time.Minute)); !got.Equal(noon.Add(time.Minute)) {
		t.Errorf("postponed until %s, want one minute from now", got)
	}
	if got := r.postponeRead(kyma, noon.Add(time.Hour)); !got.Equal(noon.Add(time.Minute)) {
		t.Errorf("the second call postponed until %s, want the first time", got)
	}
	other := kyma.DeepCopy()
	other.UID = "another"
	if got := r.postponeRead(other, noon.Add(time.Hour)); !got.Equal(noon.Add(time.Hour)) {
		t.Errorf("the report of another Kyma with this name is postponed until %s, want its own time", got)
	}
	known := r.lastKnown(other)
	known.AskedAt = noon
	r.storeReport(other, known)
	if got := r.postponeRead(other, noon.Add(time.Hour)); !got.IsZero() {
		t.Error("a report that was already read is postponed")
	}
}

func TestPostponedReadIsNotCountedAsAReport(t *testing.T) {
	now := noon
	r := newReports(nil, func() time.Time { return now }, fleetstate.New(), NewSlimmer())
	kyma := restingKyma("one")
	last := func() time.Time {
		known := r.fleet.Get(client.ObjectKeyFromObject(kyma))
		return newestReportTime(&known)
	}
	if got := last(); !got.IsZero() {
		t.Errorf("without a record, the last report is %s, want zero", got)
	}
	r.postponeRead(kyma, noon.Add(20*time.Second))
	if got := last(); !got.Equal(noon.Add(20*time.Second - maxRestingPoll)) {
		t.Errorf("last report before the first read: got %s, want maxRestingPoll before the first read", got)
	}
	known := r.lastKnown(kyma)
	known.AskedAt = noon.Add(20 * time.Second)
	r.storeReport(kyma, known)
	if got := last(); !got.IsZero() {
		t.Errorf("after a read without a report, the last report is %s, want zero", got)
	}
	known.Accepted, known.ArrivedAt = &bundle.AcceptedReport{}, noon.Add(-time.Hour)
	r.storeReport(kyma, known)
	if got := last(); !got.Equal(noon.Add(-time.Hour)) {
		t.Errorf("last report after a read: got %s, want the arrival an hour ago", got)
	}
}

// The publisher polls an idle runtime with one request. If the runtime has sent an unchanged report, the publisher
// needs a second request to fetch the report.
func TestPollingAnIdleRuntimeTakesOneRequest(t *testing.T) {
	const runtimes = 3
	w, asked := atRest(t, runtimes)
	w.now = w.now.Add(2 * w.kymas.PollInterval)
	w.poll()
	wantAsked(t, "no new report", asked, map[string]int{"HEAD reports": runtimes})
	w.heartbeat(w.names[1])
	w.now = w.now.Add(2 * w.kymas.PollInterval)
	asked.taken()
	w.poll()
	wantAsked(t, "heartbeat", asked, map[string]int{"HEAD reports": runtimes, "GET reports": 1})
	// Another Kyma with the same runtime ID does not change the inputs of the reconcile, but the reconcile must still
	// not be skipped.
	other := kymaNamed("other", "other", w.now.Add(-24*time.Hour))
	other.Labels = map[string]string{v1beta2.LabelRuntimeID: w.names[1]}
	w.must(w.api.Create(t.Context(), other))
	other.Status.Runtime = &v1beta2.RuntimeStatus{ID: w.names[1], Key: &v1beta2.RuntimeKey{}}
	w.must(w.api.Status().Update(t.Context(), other))
	w.now = w.now.Add(2 * w.kymas.PollInterval)
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "kcp-system", Name: w.names[1]}}
	_, err := w.kymas.Reconcile(quiet(t.Context()), request)
	w.must(err)
	kyma := &v1beta2.Kyma{}
	w.must(w.api.Get(t.Context(), request.NamespacedName, kyma))
	if kyma.Status.State == v1beta2.StateReady {
		t.Error("the Kyma is still Ready, although another Kyma owns the runtime")
	}
}

func (w *waves) heartbeat(name string) {
	w.Helper()
	kept := w.digests[name]
	delete(w.digests, name)
	w.agents()
	if w.digests[name] != kept {
		w.Fatal("the heartbeat changed the runtime's bundle")
	}
	clear(w.pushes)
}
