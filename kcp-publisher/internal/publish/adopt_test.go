package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

func after(p plan.PublishedBundle) *plan.RecordedBundle {
	return &plan.RecordedBundle{
		Epoch: p.Predicate.Epoch, Sequence: p.Predicate.Sequence, Digest: p.Digest, Versions: p.Versions,
	}
}

func (f *fleet) manifestOf(d digest.Digest) bundle.Blob {
	f.t.Helper()
	repository, err := f.place().Repository(f.t.Context(), bundle.DesiredRepository("one"))
	if err != nil {
		f.t.Fatal(err)
	}
	fetched, err := store.Fetch(f.t.Context(), repository, d.String())
	if err != nil {
		f.t.Fatal(err)
	}
	return bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes)
}

func TestReplayedBundleIsReplacedAndReported(t *testing.T) {
	for name, restarted := range map[string]bool{"after a restart": true, "while the publisher runs": false} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			p, runtime := f.started(), runtimeNamed("one")
			old := f.publish(p, runtime, "regular")
			runtime.RecordedBundle = after(old.Published)
			f.now = noon.Add(time.Minute)
			last := f.publish(p, runtime, "fast")
			runtime.RecordedBundle = after(last.Published)
			f.puts("one", f.manifestOf(old.Published.Digest))
			if restarted {
				p = f.started()
			}
			f.now = noon.Add(2 * time.Minute)
			got := f.publish(p, runtime, "fast")
			if !got.IsPushed || got.Reason != plan.ReasonRegistryDiffers || got.Deviation == nil ||
				got.Deviation.Reason != v1beta2.ReasonBundleReplayed {
				t.Fatalf("got outcome %+v, deviation %+v, want a push because of a replayed bundle", got, got.Deviation)
			}
			if next := got.Published.Predicate; next.Sequence <= last.Published.Predicate.Sequence ||
				next.Previous.Digest != last.Published.Digest || got.Published.Digest != f.lying("one") {
				t.Errorf("got previous bundle %+v and sequence %d, want a successor of the last published bundle",
					next.Previous, next.Sequence)
			}
			runtime.RecordedBundle = after(got.Published)
			if again := f.publish(p, runtime, "fast"); again.IsPushed || again.Deviation != nil || !again.IsChecked {
				t.Errorf("published again: got outcome %+v, deviation %+v, want no push", again, again.Deviation)
			}
		})
	}
}

func TestAdoptedBundleIsRecordedBeforeNextPush(t *testing.T) {
	f := newFleet(t)
	p, runtime := f.started(), runtimeNamed("one")
	first := f.publish(p, runtime, "regular")
	runtime.RecordedBundle = after(first.Published)
	f.now = noon.Add(time.Minute)
	left := f.publish(p, runtime, "fast") // the publisher stops before it records this bundle
	p = f.started()
	if adopted := f.publish(p, runtime, "fast"); adopted.IsPushed || adopted.Deviation != nil ||
		adopted.Published.Digest != left.Published.Digest {
		t.Fatalf("after a restart: got outcome %+v, deviation %+v, want an adopted bundle", adopted, adopted.Deviation)
	}
	if held := f.publish(p, runtime, "regular"); held.IsPushed || !held.IsUnrecorded ||
		held.Published.Digest != left.Published.Digest {
		t.Fatalf("before the bundle is recorded: got %+v, want no push", held)
	}
	runtime.RecordedBundle = after(left.Published)
	if next := f.publish(p, runtime, "regular"); !next.IsPushed ||
		next.Published.Predicate.Previous.Digest != left.Published.Digest {
		t.Errorf("after the bundle is recorded: got %+v, want a push", next)
	}
}

func TestBundleFromAnotherPublisherIsAdoptedAfterConflict(t *testing.T) {
	f := newFleet(t)
	p, other, runtime := f.started(), f.started(), runtimeNamed("one")
	first := f.publish(p, runtime, "regular")
	runtime.RecordedBundle = after(first.Published)
	p.RecheckInterval = time.Hour // so that only the push detects the conflict
	f.publish(p, runtime, "regular")
	f.now = noon.Add(time.Minute)
	theirs := f.publish(other, runtime, "fast")
	f.now = noon.Add(2 * time.Minute)
	mine := f.publish(p, runtime, "experimental")
	if mine.IsPushed && mine.Published.Predicate.Sequence <= theirs.Published.Predicate.Sequence {
		t.Errorf("got pushed sequence %d, want one after %d", mine.Published.Predicate.Sequence,
			theirs.Published.Predicate.Sequence)
	}
	if !mine.IsUnrecorded || mine.Published.Digest != theirs.Published.Digest {
		t.Errorf("got %+v, want the other publisher's bundle to be adopted", mine)
	}
}

func TestPublisherWithoutLeaseDoesNotPush(t *testing.T) {
	f := newFleet(t)
	p := f.started()
	p.MayPush = func() error { return errors.New("another replica holds the lease") }
	if outcome, err := f.try(p, runtimeNamed("one"), "regular"); !errors.Is(err, ErrPushNotAllowed) ||
		!strings.Contains(err.Error(), "holds the lease") {
		t.Errorf("got %+v, %v, want ErrPushNotAllowed", outcome, err)
	}
	p.MayPush = nil
	if outcome := f.publish(p, runtimeNamed("one"), "regular"); !outcome.IsPushed {
		t.Errorf("with the lease: got %+v, want a push", outcome)
	}
}

// fetching is a registry that counts the fetches of each digest.
type fetching struct {
	store.Store
	times map[digest.Digest]int
}

type fetchingFrom struct {
	oras.Target
	times map[digest.Digest]int
}

func (f fetching) Repository(ctx context.Context, name string) (oras.Target, error) {
	target, err := f.Store.Repository(ctx, name)
	return fetchingFrom{target, f.times}, err
}

func (f fetchingFrom) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	f.times[d.Digest]++
	return f.Target.Fetch(ctx, d)
}

func TestRestartedPublisherFetchesSharedDocumentsOnce(t *testing.T) {
	f := newFleet(t)
	runtimes := []plan.Runtime{runtimeNamed("one"), runtimeNamed("two"), runtimeNamed("three")}
	p := f.started()
	var last plan.PublishedBundle
	for i := range runtimes {
		last = f.publish(p, runtimes[i], "regular").Published
		runtimes[i].RecordedBundle = after(last)
	}
	p = f.started()
	place := fetching{p.Place, map[digest.Digest]int{}}
	p.Place, p.RecheckInterval = place, time.Hour
	checked := 0
	for _, runtime := range runtimes {
		adopted := f.publish(p, runtime, "regular")
		if adopted.IsPushed || adopted.Deviation != nil || adopted.Published.StateBlob.Digest != last.StateBlob.Digest ||
			adopted.Published.State.Kyma.Spec.Channel != "regular" {
			t.Errorf("runtime %s: got outcome %+v, deviation %+v, want an adopted bundle", runtime.ID, adopted,
				adopted.Deviation)
		}
		if adopted.IsChecked {
			checked++
		}
	}
	if n, m := place.times[last.StateBlob.Digest], place.times[last.CatalogBlob.Digest]; n != 1 || m != 1 ||
		checked != 1 {
		t.Errorf("got %d fetches of the state, %d of the catalog and %d checked bundles, want 1 of each", n, m, checked)
	}
	// Within one RecheckInterval, the publisher also checks the bundles that it did not check after its restart.
	f.now = f.now.Add(time.Hour)
	for _, runtime := range runtimes {
		if again := f.publish(p, runtime, "regular"); !again.IsChecked {
			t.Errorf("runtime %s: the registry was not checked", runtime.ID)
		}
	}
}

func TestOutdatedBundleIsNotPushed(t *testing.T) {
	f := newFleet(t)
	p, runtime := f.started(), runtimeNamed("one")
	runtime.RecordedBundle = after(f.publish(p, runtime, "regular").Published)
	before := f.lying("one")
	spec := v1beta2.KymaSpec{Channel: "fast"}
	in := Input{Runtime: runtime, Request: resolve.Request{Seed: spec, Requested: spec}}
	var err error
	if in.Catalog, err = catalog.New(nil, nil); err != nil {
		t.Fatal(err)
	}
	for remaining := range 2 { // 0: before the documents are pushed; 1: before the manifest is pushed
		in.IsCurrent = func() bool {
			remaining--
			return remaining >= 0
		}
		if _, err := p.Publish(t.Context(), f.record(p, "one"), in); !errors.Is(err, ErrOutdatedDecision) ||
			f.lying("one") != before {
			t.Errorf("got error %v and bundle %s, want ErrOutdatedDecision and bundle %s", err, f.lying("one"), before)
		}
	}
	in.IsCurrent = nil
	if outcome, err := p.Publish(t.Context(), f.record(p, "one"), in); err != nil || !outcome.IsPushed {
		t.Errorf("with current decisions: got %+v, %v, want a push", outcome, err)
	}
}

func TestOversizedManifestIsReplaced(t *testing.T) {
	f := newFleet(t)
	p, runtime := f.started(), runtimeNamed("one")
	f.publish(p, runtime, "regular")
	f.puts("one", bundle.NewBlob(ocispec.MediaTypeImageManifest, fmt.Appendf(nil,
		`{"schemaVersion":2,"mediaType":%q,"annotations":{"a":%q}}`, ocispec.MediaTypeImageManifest,
		strings.Repeat("a", bundle.MaxManifestBytes))))
	for name, publisher := range map[string]*Publisher{"same process": p, "restarted": f.started()} {
		got := f.publish(publisher, runtime, "fast")
		if !got.IsPushed || f.lying("one") != got.Published.Digest {
			t.Errorf("%s: got outcome %+v, want a new bundle", name, got)
		}
		f.puts("one", bundle.NewBlob(ocispec.MediaTypeImageManifest, fmt.Appendf(nil,
			`{"schemaVersion":2,"mediaType":%q,"annotations":{"b":%q}}`, ocispec.MediaTypeImageManifest,
			strings.Repeat("b", bundle.MaxManifestBytes))))
	}
}
