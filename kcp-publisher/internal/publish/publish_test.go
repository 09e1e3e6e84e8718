package publish

import (
	"crypto"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

const validity = 9 * time.Hour

// fleet is a publisher with the objects that it needs. Its registry is an OCI layout in a folder.
type fleet struct {
	t       *testing.T
	signer  trust.Signer
	root    trust.Root
	dir     string
	now     time.Time
	records map[*Publisher]map[string]*Record
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{
		t: t, signer: trusttest.NewSigner(t), dir: filepath.Join(t.TempDir(), "registry"), now: noon,
		records: map[*Publisher]map[string]*Record{},
	}
	public, err := f.signer.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	data, err := trusttest.NewRoot(trusttest.NewSigner(t), []crypto.PublicKey{public}, noon.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if f.root, err = trust.ParseRoot(data); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fleet) place() store.Store {
	f.t.Helper()
	place, err := store.Open(store.LayoutScheme+f.dir, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return place
}

func (f *fleet) started() *Publisher {
	f.t.Helper()
	p, err := New(Options{
		Place: f.place(), Keys: Keys{Signer: f.signer, Root: f.root}, Validity: validity,
		Now:        func() time.Time { return f.now },
		Components: component.NewReader(component.Options{Revalidate: time.Hour, RetryAfter: time.Hour}),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fleet) record(p *Publisher, runtime string) *Record {
	if f.records[p] == nil {
		f.records[p] = map[string]*Record{}
	}
	if f.records[p][runtime] == nil {
		f.records[p][runtime] = &Record{}
	}
	return f.records[p][runtime]
}

func (f *fleet) publish(p *Publisher, runtime plan.Runtime, channel string) Outcome {
	f.t.Helper()
	outcome, err := f.try(p, runtime, channel)
	if err != nil {
		f.t.Fatal(err)
	}
	return outcome
}

func (f *fleet) try(p *Publisher, runtime plan.Runtime, channel string) (Outcome, error) {
	f.t.Helper()
	snapshot, err := catalog.New(nil, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	spec := v1beta2.KymaSpec{Channel: channel}
	return p.Publish(f.t.Context(), f.record(p, runtime.ID), Input{
		Runtime: runtime, Request: resolve.Request{Seed: spec, Requested: spec}, Catalog: snapshot,
	})
}

func (f *fleet) lying(runtime string) digest.Digest {
	f.t.Helper()
	repository, err := f.place().Repository(f.t.Context(), bundle.DesiredRepository(runtime))
	if err != nil {
		f.t.Fatal(err)
	}
	found, err := store.Head(f.t.Context(), repository, bundle.TagDesired)
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

func (f *fleet) puts(runtime string, manifest bundle.Blob) {
	f.t.Helper()
	repository, err := f.place().Repository(f.t.Context(), bundle.DesiredRepository(runtime))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := store.PushManifest(f.t.Context(), repository, manifest, bundle.TagDesired); err != nil {
		f.t.Fatal(err)
	}
}

func runtimeNamed(id string) plan.Runtime {
	return plan.Runtime{ID: id, Audience: bundle.Audience{Runtime: id}}
}

func TestBundleIsPushedOnce(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	first := f.publish(p, runtimeNamed("one"), "regular")
	if !first.IsPushed || first.Reason != plan.ReasonFirst || first.Published.Digest != f.lying("one") ||
		first.Published.Predicate.Previous != nil {
		t.Fatalf("first bundle: got %+v, want a push without a predecessor", first)
	}
	if second := f.publish(p, runtimeNamed("one"), "regular"); second.IsPushed || second.Reason != "" ||
		second.Published.Digest != first.Published.Digest {
		t.Errorf("equal request: got %+v, want no push", second)
	}
	f.now = noon.Add(time.Minute)
	changed := f.publish(p, runtimeNamed("one"), "fast")
	previous := changed.Published.Predicate.Previous
	if !changed.IsPushed || previous == nil || previous.Digest != first.Published.Digest ||
		previous.Sequence != first.Published.Predicate.Sequence {
		t.Errorf("changed request: got %+v, want a push", changed)
	}
}

func TestRestartedPublisherAdoptsItsBundle(t *testing.T) {
	f := newFleet(t)
	pushed := f.publish(f.started(), runtimeNamed("one"), "regular")
	f.now = noon.Add(time.Minute)
	after := f.publish(f.started(), runtimeNamed("one"), "regular")
	if after.IsPushed || after.Published.Digest != pushed.Published.Digest ||
		after.Published.Predicate.Sequence != pushed.Published.Predicate.Sequence {
		t.Errorf("got %+v\nwant the bundle %+v to be adopted", after, pushed)
	}
}

func TestBundleStaysValidInTransit(t *testing.T) {
	const season = 90 * 24 * time.Hour
	f := newFleet(t)
	p := f.started()
	for id, c := range map[string]struct{ way, life time.Duration }{"network": {0, validity},
		"plant": {validity / 2, validity}, "ship": {season, season}} {
		runtime := runtimeNamed(id)
		runtime.Validity = c.way
		first, second := f.publish(p, runtime, "regular"), f.publish(p, runtime, "regular")
		predicate := second.Published.Predicate
		if life := predicate.ExpiresAt.Sub(predicate.IssuedAt); life != c.life || !first.IsPushed || second.IsPushed {
			t.Errorf("%s: got validity %s, want %s; pushed %t, then %t", id, life, c.life, first.IsPushed, second.IsPushed)
		}
	}
}

func TestExpiredBundleIsStillAdopted(t *testing.T) {
	f := newFleet(t)
	pushed := f.publish(f.started(), runtimeNamed("one"), "regular")
	f.now = noon.Add(10 * validity)
	renewed := f.publish(f.started(), runtimeNamed("one"), "regular")
	previous := renewed.Published.Predicate.Previous
	if !renewed.IsPushed || previous == nil || previous.Digest != pushed.Published.Digest ||
		renewed.Published.StateBlob.Digest != pushed.Published.StateBlob.Digest {
		t.Errorf("got %+v, want a renewed bundle with the same state", renewed)
	}
	if expires := renewed.Published.Predicate.ExpiresAt; !expires.Equal(f.now.Add(validity)) {
		t.Errorf("got expiry %s, want %s", expires, f.now.Add(validity))
	}
}

func TestForeignBundleIsReplaced(t *testing.T) {
	for name, put := range map[string]func(f *fleet) bundle.Blob{
		"bundle from an unknown signer": func(f *fleet) bundle.Blob {
			documents, err := bundle.NewDocuments(bundle.DesiredState{}, bundle.Catalog{})
			if err != nil {
				f.t.Fatal(err)
			}
			manifest, err := bundle.Compose(documents,
				bundle.Predicate{Audience: bundle.Audience{Runtime: "one"}, Epoch: 1, Sequence: 9_000_000_000_000,
					IssuedAt: noon, ExpiresAt: noon.Add(validity), RootVersion: 1}, trusttest.NewSigner(f.t))
			if err != nil {
				f.t.Fatal(err)
			}
			return manifest
		},
		"bundle of another runtime": func(f *fleet) bundle.Blob {
			f.publish(f.started(), runtimeNamed("two"), "regular")
			repository, err := f.place().Repository(f.t.Context(), bundle.DesiredRepository("two"))
			if err != nil {
				f.t.Fatal(err)
			}
			fetched, err := store.Fetch(f.t.Context(), repository, bundle.TagDesired)
			if err != nil {
				f.t.Fatal(err)
			}
			return bundle.Blob(fetched)
		},
		"manifest that is not a bundle": func(*fleet) bundle.Blob {
			return bundle.NewBlob("application/vnd.oci.image.manifest.v1+json", []byte(`{"schemaVersion":2}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.puts("one", put(f))
			runtime := runtimeNamed("one")
			// The publisher must base the next bundle on the one that is recorded in the Kyma's status.
			runtime.RecordedBundle = &plan.RecordedBundle{
				Epoch: 1, Sequence: noon.Add(time.Hour).UnixMilli(), Digest: digest.FromString("last"),
			}
			outcome := f.publish(f.started(), runtime, "regular")
			if !outcome.IsPushed || outcome.Deviation == nil ||
				outcome.Published.Predicate.Previous.Digest != runtime.RecordedBundle.Digest ||
				outcome.Published.Predicate.Sequence != runtime.RecordedBundle.Sequence+1 {
				t.Errorf("got %+v, want a bundle that follows the record", outcome)
			}
			if outcome.Published.Digest != f.lying("one") {
				t.Errorf("got bundle %s in the registry, want the published one", f.lying("one"))
			}
		})
	}
}

func TestRuntimesWithEqualRequestsShareDocuments(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	one, two := f.publish(p, runtimeNamed("one"), "regular"), f.publish(p, runtimeNamed("two"), "regular")
	if one.Published.StateBlob.Digest != two.Published.StateBlob.Digest ||
		one.Published.CatalogBlob.Digest != two.Published.CatalogBlob.Digest {
		t.Errorf("got documents %s and %s for runtime one, %s and %s for runtime two", one.Published.StateBlob.Digest,
			one.Published.CatalogBlob.Digest, two.Published.StateBlob.Digest, two.Published.CatalogBlob.Digest)
	}
	if one.Published.Digest == two.Published.Digest {
		t.Error("two runtimes have equal bundles")
	}
}

func TestFailedPushIsRetriedAndNotRecorded(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	first := f.publish(p, runtimeNamed("one"), "regular")
	index := filepath.Join(f.dir, "index.json")
	kept, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	// The registry's data is damaged and then restored from an older copy.
	if err := os.WriteFile(index, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	f.now = noon.Add(time.Minute)
	if outcome, err := f.try(p, runtimeNamed("one"), "fast"); err == nil {
		t.Fatalf("damaged registry: got %+v, want an error", outcome)
	}
	if err := os.WriteFile(index, kept, 0o644); err != nil {
		t.Fatal(err)
	}
	again := f.publish(p, runtimeNamed("one"), "fast")
	if previous := again.Published.Predicate.Previous; !again.IsPushed || previous == nil ||
		previous.Digest != first.Published.Digest {
		t.Errorf("restored registry: got %+v, want a push after the first bundle", again)
	}
	if again.Published.Digest != f.lying("one") {
		t.Errorf("got bundle %s in the registry, want the published one", f.lying("one"))
	}
}

func TestInvalidRuntimeIDIsRefusedBeforeRegistryAccess(t *testing.T) {
	f := newFleet(t)
	if outcome, err := f.try(f.started(), runtimeNamed("../one"), "regular"); err == nil {
		t.Errorf("got %+v, want an error", outcome)
	}
	if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
		t.Errorf("the registry was accessed: %v", err)
	}
}

// IsSettled must check shared documents, because the next call to Publish does not read the registry again.
func TestIsSettledChecksSharedDocuments(t *testing.T) {
	f := newFleet(t)
	snapshot, err := catalog.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		secrets *plan.RuntimeSecrets
		rests   bool
	}{
		"runtime without a problem": {nil, true},
		"Secret that cannot be sealed": {&plan.RuntimeSecrets{Published: []bundle.RuntimeSecret{secret("", "pull", "1")}},
			false},
	} {
		runtime := runtimeNamed(fmt.Sprint("rests-", c.rests))
		runtime.Secrets = c.secrets
		spec := v1beta2.KymaSpec{Channel: "regular"}
		in := Input{Runtime: runtime, Request: resolve.Request{Seed: spec, Requested: spec}, Catalog: snapshot}
		before, err := f.started().Publish(t.Context(), &Record{}, in)
		if err != nil {
			t.Fatal(err)
		}
		p := f.started()
		published := before.Published
		runtime.RecordedBundle = &plan.RecordedBundle{
			Epoch: published.Predicate.Epoch, Sequence: published.Predicate.Sequence, Digest: published.Digest,
			Versions: published.Versions,
		}
		in.Runtime = runtime
		rests, err := p.IsSettled(t.Context(), &Record{}, in)
		if err != nil || rests != c.rests || (before.SecretsError == nil) != c.rests {
			t.Errorf("%s: got rests %t, %v, Secrets error %v", what, rests, err, before.SecretsError)
		}
		if p.sharedSince[published.StateBlob.Digest].IsZero() || p.sharedSince[published.CatalogBlob.Digest].IsZero() {
			t.Errorf("%s: the shared documents were not checked", what)
		}
	}
}
