package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// waves is a fleet for rollout tests. The tests call its controllers one after the other.
type waves struct {
	*testing.T
	*sharedInput
	now     time.Time
	api     client.WithWatch
	place   store.Store
	kymas   *Kymas
	names   []string
	patches int
	// digests contains the applied bundle of each runtime. pushes counts the new bundles of each runtime.
	digests  map[string]digest.Digest
	pushes   map[string]int
	sequence int64
}

const pinnedName, promotedModule, promotedChannel = "pinned", "keda", "regular"

// newWaves returns a fleet with a policy that has waves of 1, 10 and 100 percent. One runtime pins module keda.
func newWaves(t *testing.T, s *sharedInput, runtimes int) *waves {
	t.Helper()
	w := &waves{
		T: t, sharedInput: s, now: trusttest.Now, place: store.NewMemory(), digests: map[string]digest.Digest{},
		pushes: map[string]int{},
	}
	objects := []client.Object{w.policy()}
	for _, version := range s.versions {
		objects = append(objects, &v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda-" + version},
			Spec:       v1beta2.ModuleTemplateSpec{ModuleName: promotedModule, Version: version},
		})
	}
	objects = append(objects, &v1beta2.ModuleReleaseMeta{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: promotedModule},
		Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: promotedModule, OcmComponentName: kedaComponent,
			Channels: []v1beta2.ChannelVersion{{Channel: promotedChannel, Version: s.versions[0]}}},
	})
	public, err := trust.EncodePublicKey(trusttest.PublicKey(t, s.victimKey.signer))
	w.must(err)
	for i := range runtimes {
		name := fmt.Sprintf("runtime-%03d", i)
		if i == 0 {
			name = pinnedName
		}
		kyma := kymaNamed(name, name, w.now.Add(-time.Hour))
		kyma.Finalizers = []string{v1beta2.FinalizerKyma}
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			ID: name, Key: &v1beta2.RuntimeKey{Thumbprint: s.victimKey.thumbprint, PublicKey: public},
		}
		if name == pinnedName {
			kyma.Annotations = map[string]string{v1beta2.AnnotationPinnedVersions: promotedModule + "=" + s.versions[0]}
		}
		objects, w.names = append(objects, kyma), append(w.names, name)
	}
	scheme := runtime.NewScheme()
	w.must(v1beta2.AddToScheme(scheme))
	w.must(fleet.AddToScheme(scheme))
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1beta2.Kyma{}, &fleet.Rollout{}).
		WithIndex(&v1beta2.Kyma{}, indexRuntime,
			func(o client.Object) []string { return []string{plan.ClaimedRuntimeID(o.(*v1beta2.Kyma))} }).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				opts ...client.SubResourcePatchOption) error {
				if o.GetObjectKind().GroupVersionKind().Kind == "Kyma" {
					w.patches++
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	w.restart()
	return w
}

func (w *waves) policy() *fleet.RolloutPolicy {
	deadline := metav1.Duration{Duration: time.Hour}
	wave := func(name string, percent int32) fleet.Wave {
		return fleet.Wave{
			Name: name, Percent: &percent, Deadline: deadline, FailsOn: []fleet.Symptom{fleet.SymptomError},
		}
	}
	return &fleet.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "careful"},
		Spec: fleet.RolloutPolicySpec{
			Course: fleet.Course{OnFailure: fleet.OnFailureRollback, OfflineAfter: metav1.Duration{Duration: time.Hour},
				Waves: []fleet.Wave{wave("canaries", 1), wave("tenth", 10), wave("all", 100)}}},
	}
}

func (w *waves) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// restart replaces the publisher with a new one that knows only the objects in the API server.
func (w *waves) restart() {
	now := func() time.Time { return w.now }
	publisher, err := publish.New(publish.Options{
		Place: w.place, Keys: publish.Keys{Root: w.newest, FormerRoots: []trust.Root{w.first}, Signer: w.own.signer},
		Validity:        365 * 24 * time.Hour,
		RecheckInterval: 365 * 24 * time.Hour, Now: now, Components: component.NewReader(component.Options{
			Sources: []component.Source{modules{w.components, new(bool)}},
		}),
	})
	w.must(err)
	recorder := events.NewFakeRecorder(0)
	recorder.Events = nil
	memory := fleetstate.New()
	slimmer := NewSlimmer()
	reports := newReports(w.place, now, memory, slimmer)
	catalog := &Catalog{
		Changes: NewChanges(), fleet: memory,
		Reader: w.api, Namespace: "kcp-system", Reconciles: make(chan event.GenericEvent, 10*len(w.names)),
		changed: make(chan event.GenericEvent, 10),
	}
	w.kymas = &Kymas{
		Client: w.api, uncached: w.api, Events: recorder, Publisher: publisher, Catalog: catalog, Place: w.place,
		Keys: &Keys{Publisher: publisher}, Now: now, Watchers: &Watchers{}, fleet: memory, reports: reports,
		Options: Options{
			PollInterval: 10 * time.Second, Slimmer: slimmer, Rules: plan.Rules{SilenceTimeout: 24 * time.Hour},
		},
		Rollouts: &Rollouts{
			Client: w.api, Events: recorder, Catalog: catalog, Interval: time.Second, Now: now,
			lastReport: reports.lastReport,
		},
		backoff: registryBackoff{fleet: memory}, counts: NewFleetMetrics().addPart(memory, nil),
		checkReport: func(r bundle.Report) error { return ingest.Check(w.schema, r) },
	}
	w.kymas.Watchers.accepted.Store(&[]bundle.Watcher{})
}

// plan reads the catalog and plans the rollouts.
func (w *waves) plan() {
	ctx := quiet(w.Context())
	_, err := w.kymas.Catalog.Reconcile(ctx, ctrl.Request{})
	w.must(err)
	for range 2 { // the second call reads the writes of the first
		_, err = w.kymas.Rollouts.Reconcile(ctx, ctrl.Request{})
		w.must(err)
	}
}

func (w *waves) poll() {
	ctx := quiet(w.Context())
	w.plan()
	for _, name := range w.names {
		for again, count := true, 0; again && count < 5; count++ {
			result, err := w.kymas.Reconcile(ctx, ctrl.Request{
				NamespacedName: client.ObjectKey{Namespace: "kcp-system", Name: name},
			})
			w.must(err)
			again = result.RequeueAfter > 0 && result.RequeueAfter < time.Second // the status write was postponed
		}
	}
	for len(w.kymas.Catalog.Reconciles) > 0 {
		<-w.kymas.Catalog.Reconciles
	}
	for len(w.kymas.Catalog.changed) > 0 {
		<-w.kymas.Catalog.changed
	}
}

// agents simulates the agents of all runtimes: each agent polls and sends a report. It checks that the catalog in
// every new bundle contains the installed versions.
func (w *waves) agents() {
	w.now = w.now.Add(10 * time.Second)
	for _, name := range w.names {
		repository, err := w.place.Repository(w.Context(), bundle.DesiredRepository(name))
		w.must(err)
		fetched, err := store.Fetch(w.Context(), repository, bundle.TagDesired)
		w.must(err)
		if digest.FromBytes(fetched.Bytes) == w.digests[name] {
			continue
		}
		verified, err := bundle.Verify(fetched,
			bundle.Trust{Root: w.newest, Runtime: name, KeyThumbprint: w.victimKey.thumbprint}, w.now)
		w.must(err)
		opened, err := store.FetchBundle(w.Context(), repository, verified)
		w.must(err)
		w.digests[name], w.pushes[name] = opened.Digest, w.pushes[name]+1
		if name != pinnedName {
			w.wantShown(name, opened)
		}
		w.sequence = bundle.NextSequence(w.sequence, w.now)
		p := opened.Statement.Predicate
		report := bundle.Report{Runtime: name, Fleet: w.newest.Fleet, Sequence: w.sequence,
			Time:     w.now.UTC().Truncate(time.Second),
			Observed: &bundle.Observed{Epoch: p.Epoch, Sequence: p.Sequence, Digest: opened.Digest},
			Kyma:     &bundle.ReportedKyma{Spec: opened.State.Kyma.Spec, Generation: 1}}
		for _, m := range opened.State.Manifests {
			report.Modules = append(report.Modules, bundle.ReportedModule{
				Name: m.Module, Channel: m.Channel, Version: m.Version, State: v1beta2.StateReady,
			})
		}
		blob, err := bundle.ComposeReport(report, w.victimKey.signer)
		w.must(err)
		to, err := w.place.Repository(w.Context(), bundle.ReportRepository(name))
		w.must(err)
		w.must(store.PushBlob(w.Context(), to, bundle.EmptyBlob()))
		w.must(store.PushManifest(w.Context(), to, blob, bundle.TagLatest))
	}
}

// wantShown checks that the catalog of a bundle contains exactly the installed version in the channel.
func (w *waves) wantShown(name string, opened bundle.Bundle) {
	w.Helper()
	version := opened.State.Manifests[0].Version
	var spec v1beta2.ModuleReleaseMetaSpec
	w.must(json.Unmarshal(opened.Modules.ModuleReleaseMetas[0].Spec, &spec))
	var templates []string
	for _, t := range opened.Modules.ModuleTemplates {
		templates = append(templates, t.Name)
	}
	shown := spec.Channels[0].Version
	stays := bundle.IsOlder(shown, version) && len(opened.State.Problems) == 1
	if shown != version && !stays || !slices.Equal(templates, []string{"keda-" + shown}) {
		w.Errorf("%s gets version %s, but its catalog has channels %+v and templates %v", name, version, spec.Channels,
			templates)
	}
}

// counts returns the number of new bundles and status writes since the last call.
func (w *waves) counts() (pushes, patches int) {
	for _, n := range w.pushes {
		pushes += n
	}
	patches, w.patches = w.patches, 0
	clear(w.pushes)
	return pushes, patches
}

func (w *waves) promote(version string) {
	meta := &v1beta2.ModuleReleaseMeta{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Namespace: "kcp-system", Name: promotedModule}, meta))
	meta.Spec.Channels[0].Version = version
	w.must(w.api.Update(w.Context(), meta))
}

func (w *waves) rollout() *fleet.Rollout {
	var all fleet.RolloutList
	w.must(w.api.List(w.Context(), &all))
	if len(all.Items) == 0 {
		return nil
	}
	return new(slices.MaxFunc(all.Items, func(a, b fleet.Rollout) int {
		return int(a.Spec.Revision - b.Spec.Revision)
	}))
}

// settle runs the publisher and the runtimes alternately until nothing changes.
func (w *waves) settle() {
	for range 12 {
		w.poll()
		w.agents()
	}
}

func TestRolloutUpdatesOnlyTheRuntimesOfItsWaves(t *testing.T) {
	const runtimes = 41 // one of the runtimes pins the module
	w := newWaves(t, newSurroundings(t), runtimes)
	w.settle()
	w.counts()
	w.poll()
	if _, patches := w.counts(); patches != 0 {
		t.Fatalf("an idle fleet caused %d status writes, want 0", patches)
	}
	w.promote("1.1.0")
	total, written := 0, 0
	for _, want := range []int{1, 4, 35} {
		w.poll()
		w.agents()
		pushes, patches := w.counts()
		if pushes != want {
			t.Errorf("want %d bundles in the wave, got %d", want, pushes)
		}
		total, written = total+pushes, written+patches
		if limit := 2 * total; written > limit {
			t.Errorf("got %d status writes for %d bundles, want at most 2 per bundle", written, total)
		}
		w.poll() // reads the reports, and the planner accepts the wave
		if want == 1 {
			w.wantHeldRuntimesUnwritten()
		}
	}
	w.settle()
	pushes, patches := w.counts()
	if total, written = total+pushes, written+patches; total != runtimes || written > 2*runtimes {
		t.Errorf("rollout: got %d bundles and %d status writes, want one and at most two for each of %d runtimes",
			total, written, runtimes)
	}
	if state := w.rollout().Status.State; state != fleet.RolloutSucceeded {
		t.Errorf("the rollout has state %s, want Succeeded", state)
	}
}

// wantHeldRuntimesUnwritten checks that the publisher has not written the statuses of runtimes that wait for their
// wave.
func (w *waves) wantHeldRuntimesUnwritten() {
	w.Helper()
	var kymas v1beta2.KymaList
	w.must(w.api.List(w.Context(), &kymas))
	rollouts := []fleet.Rollout{*w.rollout()}
	held := 0
	for i := range kymas.Items {
		kyma := &kymas.Items[i]
		if len(kyma.Status.Modules) != 1 || kyma.Status.Modules[0].Message != "" {
			continue
		}
		if plan.NewHolders(rollouts).
			HoldsFor(kyma)[promotedModule].HoldReason == "rollout keda-regular-1 holds version 1.1.0: wave all" {
			held++
		}
	}
	if held != 35 {
		w.Errorf("%d runtimes are held by the last wave, want 35", held)
	}
}

func TestRuntimeGetsAllowedVersionsDespiteRolloutEdits(t *testing.T) {
	s := newSurroundings(t)
	seed, histories := suite.Seed(t, 1), uint64(3)
	if suite.Selected() {
		histories = 6
	}
	for history := range histories {
		random := rand.New(rand.NewPCG(seed, history))
		w := newWaves(t, s, 8)
		w.settle()
		version, messages := 0, []string{}
		change := func(what func(*fleet.RolloutSpec)) func() {
			return func() {
				if r := w.rollout(); r != nil {
					what(&r.Spec)
					w.must(w.api.Update(t.Context(), r))
				}
			}
		}
		possible := []turn{
			{2, "a promotion", func() { version = min(version+1, len(s.versions)-1); w.promote(s.versions[version]) }},
			{1, "the channel returns to the earlier version", func() {
				// After the end of the rollout, setting the channel back is a downgrade, which runtimes do not follow.
				if r := w.rollout(); r != nil && r.Status.State != fleet.RolloutSucceeded &&
					s.versions[version] == r.Spec.To {
					version = slices.Index(s.versions, r.Spec.From)
					w.promote(r.Spec.From)
				}
			}},
			{2, "pause", change(func(r *fleet.RolloutSpec) { r.Paused = true })},
			{2, "resume", change(func(r *fleet.RolloutSpec) { r.Paused = false })},
			{1, "abort", change(func(r *fleet.RolloutSpec) { r.Abort = true })},
			{1, "undo", change(func(r *fleet.RolloutSpec) { r.Undo = true })},
			{2, "a restart", w.restart},
			{6, "the publisher polls", w.poll},
			{6, "the runtimes poll", w.agents},
		}
		for range 40 {
			next := drawn(random, possible)
			messages = append(messages, next.name)
			next.take()
		}
		w.settle()
		w.counts()
		w.poll()
		w.agents()
		if pushes, patches := w.counts(); pushes != 0 || patches != 0 {
			t.Errorf("an idle fleet caused %d bundles and %d status writes, want none", pushes, patches)
		}
		if t.Failed() {
			t.Fatalf("history %d of seed %d: %v", history, seed, messages)
		}
	}
}
