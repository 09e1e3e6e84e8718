package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/schema/kymaschema"
)

const (
	kedaComponent = "kyma-pull.dev/module/keda"
	evilImage     = "evil.example/agent@sha256:0000000000000000000000000000000000000000000000000000000000000000"
)

// sharedInput contains the keys, roots of trust, components and catalogs that all histories share.
type sharedInput struct {
	first, newest                    trust.Root
	retired, own, victimKey, mallory stolenKey
	versions                         []string
	content                          map[string]digest.Digest // by version
	components                       *memory.Store
	catalogs                         []*catalog.Snapshot // indexed by the version in the channel
	// withTemplate and withMeta contain the catalogs with one additional object from the adversary.
	withTemplate, withMeta [][]*catalog.Snapshot
	schema                 *kymaschema.Schema
	thiefs                 bundle.Documents
}

func newSurroundings(t *testing.T) *sharedInput {
	t.Helper()
	key := func() stolenKey {
		signer := trusttest.NewSigner(t)
		return stolenKey{signer: signer, thumbprint: trusttest.Thumbprint(t, signer)}
	}
	maker := trusttest.NewRootFixture(t)
	s := &sharedInput{
		own: key(), victimKey: key(), mallory: key(), versions: []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"},
		content: map[string]digest.Digest{}, components: memory.New(),
	}
	s.retired = stolenKey{signer: maker.Publisher, thumbprint: trusttest.Thumbprint(t, maker.Publisher)}
	s.first = maker.First()
	next := maker.After(s.first, func(d *trust.RootDraft) {
		maker.Must(d.Remove(trust.RolePublisher, s.retired.thumbprint))
		maker.Must(d.Add(trust.RolePublisher, trusttest.PublicKey(t, s.own.signer)))
	}, maker.Keys[:2]...)
	var err error
	s.newest, err = s.first.Next(next)
	maker.Must(err)
	s.schema, err = kymaschema.New()
	maker.Must(err)
	var templates []v1beta2.ModuleTemplate
	for _, version := range s.versions {
		s.content[version] = s.release(t, version)
		templates = append(templates, v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda-" + version},
			Spec:       v1beta2.ModuleTemplateSpec{ModuleName: "keda", Version: version},
		})
	}
	var metas []v1beta2.ModuleReleaseMeta
	for _, version := range s.versions {
		metas = append(metas, v1beta2.ModuleReleaseMeta{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "keda"},
			Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "keda", OcmComponentName: kedaComponent,
				Channels: []v1beta2.ChannelVersion{{Channel: "regular", Version: version}}},
		})
		snapshot, err := catalog.New(templates, metas[len(metas)-1:])
		maker.Must(err)
		s.catalogs = append(s.catalogs, snapshot)
	}
	s.addHostileCatalogs(templates, metas, maker.Must)
	s.thiefs, err = bundle.NewDocuments(bundle.DesiredState{Manifests: []bundle.Manifest{{
		Name: "keda", Module: "keda", Version: "1.0.0", Component: kedaComponent,
		Content: []bundle.Content{
			{
				Name: "raw-manifest", Repository: "./content", MediaType: "application/yaml",
				Digest: digest.FromString("the thief's"), SizeBytes: 11,
			},
		},
	}}}, bundle.Catalog{})
	maker.Must(err)
	return s
}

func (s *sharedInput) release(t *testing.T, version string) digest.Digest {
	t.Helper()
	raw := bundle.NewBlob("application/yaml", []byte("kind: ConfigMap # "+version))
	descriptor := ocm.Descriptor{
		Schema: ocm.SchemaV2, Name: kedaComponent, Version: version, Provider: ocm.Provider{Name: "kyma-pull.dev"},
		Resources: []ocm.Resource{{
			Element: ocm.Element{Name: "raw-manifest", Version: version}, Type: "yaml", Relation: "local",
			Access: ocm.Access{
				Type: "localBlob", LocalReference: raw.Descriptor.Digest.String(), MediaType: raw.Descriptor.MediaType,
			},
		}},
	}
	document, err := descriptor.Document()
	if err != nil {
		t.Fatal(err)
	}
	layer := bundle.NewBlob("application/vnd.ocm.software.component-descriptor.v2+json", document)
	pointer, err := json.Marshal(map[string]any{"componentDescriptorLayer": layer.Descriptor})
	if err != nil {
		t.Fatal(err)
	}
	config := bundle.NewBlob("application/vnd.ocm.software.component.config.v1+json", pointer)
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest, "config": config.Descriptor,
		"layers": []ocispec.Descriptor{layer.Descriptor, raw.Descriptor},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []bundle.Blob{raw, layer, config} {
		if err := store.PushBlob(t.Context(), s.components, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.PushManifest(t.Context(), s.components, bundle.NewBlob(ocispec.MediaTypeImageManifest, manifest),
		version); err != nil {
		t.Fatal(err)
	}
	return raw.Descriptor.Digest
}

// modules is the repository of the modules' components, which the adversary can hide.
type modules struct {
	from   oras.ReadOnlyTarget
	hidden *bool
}

func (m modules) Open(string) (oras.ReadOnlyTarget, error) {
	if *m.hidden {
		return nil, fmt.Errorf("no such repository: %w", errdef.ErrNotFound)
	}
	return m.from, nil
}
func (m modules) Repository(string) string { return "modules.example/keda" }
func (m modules) String() string           { return "modules.example" }

// adversary runs one random history: it contains the real publisher and agent, and the expected state.
type adversary struct {
	*testing.T
	*sharedInput
	random   *rand.Rand
	messages []string
	seen     map[string]int

	now       time.Time
	place     *attacked
	hidden    *bool
	publisher *publish.Publisher
	reports   *reportReader
	kymas     map[string]*v1beta2.Kyma
	made      int
	// bundles contains all pushed bundles, and reported contains all of the victim's reports.
	bundles, reported []bundle.Blob
	malice            int64
	// hostile contains the catalogs with the adversary's current object. It is nil if the adversary has not added one.
	hostile []*catalog.Snapshot

	// These fields contain the results of the operator's actions.
	offered    int
	gate       *rollout.Decision
	promoted   []string
	rolledBack map[string]bool

	// accepted is the persistent state of the victim's agent.
	accepted bundle.Accepted
	inForce  map[string]string
	observed *bundle.Observed
	refused  []bundle.RefusedBundle
	sequence int64
}

func kymaNamed(name, uid string, at time.Time) *v1beta2.Kyma {
	return &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kcp-system", Name: name, UID: types.UID(uid), Generation: 1,
			CreationTimestamp: metav1.NewTime(at),
		},
		Spec: v1beta2.KymaSpec{
			Channel: "regular", Modules: []v1beta2.Module{
				{Name: "keda", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
			},
		},
	}
}

func newAdversary(t *testing.T, s *sharedInput, random *rand.Rand) *adversary {
	t.Helper()
	w := &adversary{
		T: t, sharedInput: s, random: random, seen: map[string]int{}, now: trusttest.Now,
		place: &attacked{store.NewMemory(), map[string]bool{}}, hidden: new(bool),
		kymas: map[string]*v1beta2.Kyma{
			"mallory": kymaNamed("mallory", "mallory-0", trusttest.Now.Add(-2*time.Hour)),
			"victim":  kymaNamed("victim", "victim", trusttest.Now.Add(-time.Hour)),
		},
		promoted: []string{s.versions[0]}, rolledBack: map[string]bool{}, inForce: map[string]string{},
	}
	for name, key := range map[string]stolenKey{"victim": s.victimKey, "mallory": s.mallory} {
		public, err := trust.EncodePublicKey(trusttest.PublicKey(t, key.signer))
		w.must(err)
		w.kymas[name].Status.Runtime = &v1beta2.RuntimeStatus{
			ID: name, Key: &v1beta2.RuntimeKey{Thumbprint: key.thumbprint, PublicKey: public},
		}
	}
	w.restart()
	return w
}

func (w *adversary) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%v\n%s", err, strings.Join(w.messages, "\n"))
	}
}

func digestOf(text string) digest.Digest { return digest.Digest(text) }

func (w *adversary) restart() {
	var err error
	w.publisher, err = publish.New(publish.Options{
		Place: w.place, Keys: publish.Keys{Root: w.newest, FormerRoots: []trust.Root{w.first}, Signer: w.own.signer},
		Validity:        bundlesLive,
		RecheckInterval: 30 * time.Minute, Now: func() time.Time { return w.now },
		Components: component.NewReader(component.Options{
			Sources: []component.Source{modules{w.components, w.hidden}},
		}),
	})
	w.must(err)
	w.reports = newReports(w.place, func() time.Time { return w.now }, fleetstate.New(),
		NewSlimmer())
}

// reconcile reconciles a Kyma. If crash is true, the publisher stops after it has pushed a bundle and before it writes
// the Kyma's status.
func (w *adversary) reconcile(name string, crash bool) {
	kyma := w.kymas[name].DeepCopy()
	var all []v1beta2.Kyma
	for _, key := range slices.Sorted(maps.Keys(w.kymas)) {
		all = append(all, *w.kymas[key])
	}
	if err := plan.NewOwners(all).Check(kyma); err != nil {
		w.seen["a Kyma refused"]++
		return
	}
	plan.RecordOwner(kyma)
	rules := plan.Rules{Root: w.publisher.Root(), SilenceTimeout: time.Hour}
	newest := w.judgeReport(kyma, rules)
	runtime := rules.Runtime(kyma, newest.Accepted)
	if mustPersist(w.kymas[name].Status.Runtime, kyma.Status.Runtime) {
		w.kymas[name].Status = *kyma.Status.DeepCopy()
	}
	facts := ingest.Facts{
		Generation: kyma.Generation, Report: newest.Accepted, ReportRefused: newest.Refused, SilenceTimeout: time.Hour,
	}
	request, err := rules.Request(kyma, newest.Accepted)
	w.must(err)
	if w.gate != nil {
		request.Gates = map[rollout.Track]rollout.Decision{{Module: "keda", Channel: "regular"}: *w.gate}
	}
	outcome, err := w.publisher.Publish(w.Context(), w.record(kyma),
		publish.Input{Runtime: runtime, Request: request, Catalog: w.catalog()})
	w.must(err)
	if outcome.Deviation != nil {
		w.seen["deviation "+outcome.Deviation.Reason]++
		w.messages = append(w.messages, "  "+outcome.Deviation.Reason)
	}
	if outcome.IsPushed {
		w.keep(runtime.ID, outcome)
		if crash {
			w.seen["a crash"]++
			w.restart()
			return
		}
	}
	facts.Published, facts.Problems, facts.Deviation = &outcome.Published, outcome.Problems, outcome.Deviation
	before := w.kymas[name].Status.Runtime.DeepCopy()
	if after := ingest.NextStatus(kyma.Status, facts, w.now); ingest.NeedsUpdate(w.kymas[name].Status, after) {
		w.kymas[name].Status = after
	} else {
		w.seen["nothing to write"]++
	}
	if name == "victim" {
		w.checkStatus(before, w.kymas[name].Status.Runtime)
	}
	if outcome.IsUnrecorded {
		w.reconcile(name, false)
	}
}

func (w *adversary) record(kyma *v1beta2.Kyma) *publish.Record {
	return w.reports.fleet.PublishRecord(kyma)
}

func (w *adversary) judgeReport(kyma *v1beta2.Kyma, rules plan.Rules) fleetstate.Report {
	from := rules.Reporter(kyma, nil, w.now)
	from.Content = func(r bundle.Report) error { return ingest.Check(w.schema, r) }
	newest, _, err := w.reports.fetchReport(w.Context(), kyma, from, 0, nil)
	w.must(err)
	if newest.Refused != nil {
		w.seen["a report refused"]++
	}
	if newest.Accepted != nil && newest.Refused == nil {
		public, err := trust.EncodePublicKey(newest.Accepted.Key)
		w.must(err)
		thumbprint, err := trust.Thumbprint(newest.Accepted.Key)
		w.must(err)
		ingest.RecordReport(&kyma.Status, *newest.Accepted, public, thumbprint, newest.ArrivedAt)
		if len(newest.Accepted.Refused) > 0 {
			w.record(kyma).RequestCheck()
		}
	}
	return newest
}

func (w *adversary) repository(name string) oras.Target {
	repository, err := w.place.Repository(w.Context(), name)
	w.must(err)
	return repository
}

// keep stores a pushed bundle, so that the adversary can replay it later.
func (w *adversary) keep(runtime string, outcome publish.Outcome) {
	fetched, err := store.Fetch(w.Context(), w.repository(bundle.DesiredRepository(runtime)),
		outcome.Published.Digest.String())
	w.must(err)
	w.bundles = append(w.bundles, bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes))
	w.messages = append(w.messages,
		fmt.Sprintf("  published %d to %s: %v, because of %s", outcome.Published.Predicate.Sequence, runtime,
			outcome.Published.Versions, outcome.Reason))
}

func (w *adversary) put(runtime string, manifest bundle.Blob) {
	w.must(store.PushManifest(w.Context(), w.repository(bundle.DesiredRepository(runtime)), manifest,
		bundle.TagDesired))
}

func (w *adversary) replay() {
	if len(w.bundles) > 0 {
		w.put("victim", one(w.random, w.bundles...))
	}
}

// pollAsVictim polls once as the victim's agent. It returns the newly accepted bundle, or the reason why the agent
// refused the bundle.
func (w *adversary) pollAsVictim() (*bundle.Bundle, string) {
	repository := w.repository(bundle.DesiredRepository("victim"))
	fetched, err := store.Fetch(w.Context(), repository, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ""
	}
	w.must(err)
	if digest.FromBytes(fetched.Bytes) == w.accepted.Digest {
		return nil, ""
	}
	trusted := bundle.Trust{
		Root: w.newest, Runtime: "victim", KeyThumbprint: w.victimKey.thumbprint, Last: w.accepted,
		Installed: w.inForce,
	}
	verified, err := bundle.Verify(fetched, trusted, w.now)
	var opened bundle.Bundle
	if err == nil {
		opened, err = store.FetchBundle(w.Context(), repository, verified)
	}
	if err == nil {
		err = trusted.CheckVersions(opened)
	}
	if refused := refusal.Of(err); refused != nil {
		w.refused = append(w.refused, bundle.RefusedBundle{
			Digest: digest.FromBytes(fetched.Bytes), Reason: refused.Reason, Detail: refused.Detail,
			Time: w.now.UTC().Truncate(time.Second),
		})
		w.refused = w.refused[max(0, len(w.refused)-bundle.MaxRefusedReported):]
		return nil, string(refused.Reason)
	}
	w.must(err)
	p := opened.Statement.Predicate
	w.accepted, w.refused = opened.Accepted, nil
	w.observed = &bundle.Observed{Epoch: p.Epoch, Sequence: p.Sequence, Digest: opened.Digest}
	for _, module := range p.Removals {
		delete(w.inForce, module)
	}
	for _, m := range opened.State.Manifests {
		w.inForce[m.Module] = m.Version
	}
	return &opened, ""
}

func (w *adversary) report() {
	w.sequence = bundle.NextSequence(w.sequence, w.now)
	r := bundle.Report{
		Runtime: "victim", Fleet: w.newest.Fleet, Sequence: w.sequence, Time: w.now.UTC().Truncate(time.Second),
		Observed: w.observed, Refused: w.refused,
	}
	for module, version := range w.inForce {
		r.Modules = append(r.Modules, bundle.ReportedModule{
			Name: module, Channel: "regular", Version: version, State: v1beta2.StateReady,
		})
	}
	w.reported = append(w.reported, w.send("victim", r, w.victimKey))
}

func (w *adversary) send(to string, r bundle.Report, key stolenKey) bundle.Blob {
	blob, err := bundle.ComposeReport(r, key.signer)
	w.must(err)
	repository := w.repository(bundle.ReportRepository(to))
	w.must(store.PushBlob(w.Context(), repository, bundle.EmptyBlob()))
	w.must(store.PushManifest(w.Context(), repository, blob, bundle.TagLatest))
	return blob
}

// pushFalseReports signs arbitrary reports with mallory's key and pushes them to mallory's or the victim's repository.
func (w *adversary) pushFalseReports() {
	w.malice++
	r := bundle.Report{
		Runtime: one(w.random, "mallory", "victim"), Fleet: w.newest.Fleet,
		Sequence: one(w.random, w.now.UnixMilli()+w.malice, math.MaxInt64), Time: w.now.UTC().Truncate(time.Second),
		ClusterUID: one(w.random, "", "kcp"), Observed: one(w.random, nil, w.observed, &bundle.Observed{
			Epoch: 1, Sequence: math.MaxInt64 - 1, Digest: digest.FromString("none"),
		}),
		Kyma: &bundle.ReportedKyma{
			Spec: v1beta2.KymaSpec{Channel: one(w.random, "regular", "Ü!")}, Generation: w.malice,
		},
		Modules: []bundle.ReportedModule{
			{Name: "keda", Version: one(w.random, "999.0.0", "0.0.1"), State: v1beta2.StateReady},
		},
	}
	w.send(one(w.random, "mallory", "victim"), r, w.mallory)
}

func (w *adversary) replayReport() {
	if len(w.reported) > 0 {
		w.must(store.PushManifest(w.Context(), w.repository(bundle.ReportRepository("victim")),
			one(w.random, w.reported...), bundle.TagLatest))
	}
}
