package importer

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// image returns image docker.io/library/nginx:1 with the given content.
func image(t *testing.T, content string) (bundle.CarriedImage, []airgap.Item) {
	t.Helper()
	config, layer := bundle.NewBlob(ocispec.MediaTypeImageConfig, []byte("{}")),
		bundle.NewBlob(ocispec.MediaTypeImageLayer, []byte(content))
	manifest, err := bundle.NewManifest(ocispec.Manifest{
		Config: config.Descriptor, Layers: []ocispec.Descriptor{layer.Descriptor},
	})
	must(t, err)
	d := manifest.Descriptor
	return bundle.CarriedImage{
		Reference: "docker.io/library/nginx:1", Name: "images/docker.io/library/nginx:1", MediaType: d.MediaType,
		Digest: d.Digest, SizeBytes: d.Size,
	}, []airgap.Item{airgap.InMemory(config), airgap.InMemory(layer), airgap.InMemory(manifest)}
}

// nextFile returns a file with the runtime's next bundle and an image. change modifies the image list before it is
// signed.
func (s *sender) nextFile(
	sequence int64, content string, change func(*bundle.CarriedPredicate, *[]bundle.CarriedBundle),
) airgap.Layout {
	s.t.Helper()
	layout := s.layout(sequence, false, "keda")
	return s.withImage(layout, sequence, content, change)
}

func (s *sender) withImage(
	layout airgap.Layout, sequence int64, content string,
	change func(*bundle.CarriedPredicate, *[]bundle.CarriedBundle),
) airgap.Layout {
	s.t.Helper()
	carried, items := image(s.t, content)
	return s.withImageBlobs(layout, sequence, carried, items, change)
}

func (s *sender) withImageBlobs(
	layout airgap.Layout, sequence int64, carried bundle.CarriedImage, items []airgap.Item,
	change func(*bundle.CarriedPredicate, *[]bundle.CarriedBundle),
) airgap.Layout {
	s.t.Helper()
	bundles := []bundle.CarriedBundle{{Runtime: "berlin", Digest: s.last.Digest}}
	predicate := bundle.CarriedPredicate{
		Epoch:     1,
		Sequence:  sequence,
		IssuedAt:  noon.Add(-time.Hour),
		ExpiresAt: noon.Add(time.Hour),
	}
	if change != nil {
		change(&predicate, &bundles)
	}
	list, err := bundle.NewCarried([]bundle.CarriedImage{carried}, bundles)
	must(s.t, err)
	signed, err := bundle.ComposeCarried(list, predicate, s.signer)
	must(s.t, err)
	layout.Items = append(slices.Concat(layout.Items, items), airgap.InMemory(list), airgap.InMemory(signed),
		airgap.InMemory(bundle.EmptyBlob()))
	layout.References = append(
		layout.References,
		airgap.Reference{Name: carried.Name, Descriptor: carried.Descriptor()},
		airgap.Reference{
			Name:       bundle.CarriedRepository + ":" + bundle.CarriedTag(list.Descriptor.Digest),
			Descriptor: signed.Descriptor,
		},
	)
	return layout
}

func (s *sender) packed(layout airgap.Layout) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "file.tar")
	_, err := airgap.Write(s.t.Context(), path, layout, airgap.Packing{}, func(int64) {})
	must(s.t, err)
	return path
}

func imageAt(t *testing.T, i Importer) string {
	t.Helper()
	target, err := i.openRepository(t.Context(), "images/docker.io/library/nginx")
	must(t, err)
	found, err := store.Head(t.Context(), target, "1")
	must(t, err)
	return found.String()
}

func refusedFor(t *testing.T, err error, reason refusal.Reason, message string) {
	t.Helper()
	if refused := refusal.Of(err); refused == nil || refused.Reason != reason ||
		!strings.Contains(err.Error(), message) {
		t.Errorf("got %v, want %s with %q", err, reason, message)
	}
}

func TestImageListMustBelongToItsFile(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*bundle.CarriedPredicate, *[]bundle.CarriedBundle)
		reason  refusal.Reason
		message string
	}{
		"list for another bundle": {func(_ *bundle.CarriedPredicate, b *[]bundle.CarriedBundle) {
			(*b)[0].Digest = bundle.EmptyBlob().Descriptor.Digest
		}, refusal.WrongDigest, "is for another air-gap file"},
		"list for another runtime": {
			func(_ *bundle.CarriedPredicate, b *[]bundle.CarriedBundle) {
				(*b)[0].Runtime = "munich"
			}, refusal.WrongDigest, "runtime berlin",
		},
		"list without bundles": {
			func(p *bundle.CarriedPredicate, b *[]bundle.CarriedBundle) {
				*p, *b = bundle.CarriedPredicate{}, nil
			}, refusal.Malformed, "export again",
		},
		"list without an expiry": {
			func(p *bundle.CarriedPredicate, _ *[]bundle.CarriedBundle) {
				p.ExpiresAt = time.Time{}
			}, refusal.Malformed, "export again",
		},
		"expired list": {
			func(p *bundle.CarriedPredicate, _ *[]bundle.CarriedBundle) {
				p.ExpiresAt = noon
			}, refusal.Expired, "export again",
		},
		"list issued too far in the future": {
			func(p *bundle.CarriedPredicate, _ *[]bundle.CarriedBundle) {
				p.IssuedAt = noon.Add(25 * time.Hour)
			}, refusal.NotYetIssued, "",
		},
		"list with another epoch": {
			func(p *bundle.CarriedPredicate, _ *[]bundle.CarriedBundle) {
				p.Epoch = 2
			}, refusal.WrongEpoch, "export again",
		},
		"list for more bundles than the file has": {func(_ *bundle.CarriedPredicate, b *[]bundle.CarriedBundle) {
			*b = append(*b, bundle.CarriedBundle{Runtime: "munich", Digest: (*b)[0].Digest})
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSender(t)
			i := s.importer(filepath.Join(t.TempDir(), "target"))
			_, err := i.Import(t.Context(), []string{s.packed(s.nextFile(1, "good", c.change))})
			if c.reason == "" {
				must(t, err)
				return
			}
			refusedFor(t, err, c.reason, c.message)
		})
	}
}

func TestOlderImageListIsRefused(t *testing.T) {
	s := newSender(t)
	i := s.importer(filepath.Join(t.TempDir(), "target"))
	old := s.nextFile(1, "vulnerable", nil)
	first := s.packed(old)
	second := s.nextFile(2, "patched", nil)
	for _, path := range []string{first, s.packed(second)} {
		_, err := i.Import(t.Context(), []string{path})
		must(t, err)
	}
	patched := imageAt(t, i)
	again, err := i.Import(t.Context(), []string{s.packed(second)})
	if err != nil || again.WrittenCount != 0 {
		t.Errorf("got outcome %+v and error %v of a repeated import, want nothing written", again, err)
	}
	_, err = i.Import(t.Context(), []string{first})
	refusedFor(t, err, refusal.Rollback, "")

	// The file contains a new bundle, but the image list and image from the first file.
	third := s.layout(3, false, "keda")
	for _, r := range old.References {
		if !strings.HasPrefix(r.Name, "runtimes/") {
			third.References = append(third.References, r)
		}
	}
	third.Items = append(third.Items, old.Items...)
	_, err = i.Import(t.Context(), []string{s.packed(third)})
	refusedFor(t, err, refusal.WrongDigest, "is for another air-gap file")

	// Two exports of one bundle are imported in the wrong order. The image's tag moved between the exports.
	fourth := s.layout(4, false, "keda")
	earlier := s.packed(s.withImage(cloned(fourth), 10, "vulnerable", nil))
	_, err = i.Import(t.Context(), []string{s.packed(s.withImage(cloned(fourth), 20, "patched", nil))})
	must(t, err)
	_, err = i.Import(t.Context(), []string{earlier})
	refusedFor(t, err, refusal.Rollback, "sequence 10, which is older than the imported sequence 20")
	if got := imageAt(t, i); got != patched {
		t.Errorf("got image %s, want %s", got, patched)
	}
}

func cloned(l airgap.Layout) airgap.Layout {
	return airgap.Layout{References: slices.Clone(l.References), Items: slices.Clone(l.Items)}
}

// Files for two runtimes can be imported in any order. An older file must not change the tag of an image.
func TestFileForAnotherRuntimeKeepsNewerImages(t *testing.T) {
	s := newSender(t)
	i := s.importer(filepath.Join(t.TempDir(), "target"))
	_, err := i.Import(t.Context(), []string{s.packed(s.nextFile(5, "patched", nil))})
	must(t, err)
	patched := imageAt(t, i)

	documents, err := bundle.NewDocuments(bundle.DesiredState{CRDs: []string{}}, bundle.Catalog{})
	must(t, err)
	manifest, err := bundle.Compose(documents, bundle.Predicate{
		Audience: bundle.Audience{
			Runtime: "munich",
		}, Epoch: 1, Sequence: 4, IssuedAt: noon.Add(-time.Hour), ExpiresAt: noon.Add(time.Hour), RootVersion: 1,
	}, s.signer)
	must(t, err)
	layout := airgap.Layout{
		Items: []airgap.Item{
			airgap.InMemory(documents.State),
			airgap.InMemory(documents.Catalog),
			airgap.InMemory(manifest),
		},
		References: []airgap.Reference{{Name: "runtimes/munich:desired", Descriptor: manifest.Descriptor}},
	}
	outcome, err := i.Import(
		t.Context(),
		[]string{
			s.packed(s.withImage(layout, 4, "vulnerable", func(_ *bundle.CarriedPredicate, b *[]bundle.CarriedBundle) {
				*b = []bundle.CarriedBundle{{Runtime: "munich", Digest: manifest.Descriptor.Digest}}
			}))},
	)
	must(t, err)
	if got := imageAt(t, i); got != patched || len(outcome.Bundles) != 1 || len(outcome.SkippedImages) != 1 {
		t.Errorf("got image %s and outcome %+v, want image %s kept and one bundle", got, outcome, patched)
	}
}

func TestImageListFromAnotherSignerIsIgnored(t *testing.T) {
	s := newSender(t)
	dir := filepath.Join(t.TempDir(), "target")
	i := s.importer(dir)
	_, err := i.Import(t.Context(), []string{s.packed(s.nextFile(1, "good", nil))})
	must(t, err)
	list, err := bundle.NewCarried(nil, []bundle.CarriedBundle{{Runtime: "berlin", Digest: s.last.Digest}})
	must(t, err)
	forged, err := bundle.ComposeCarried(list,
		bundle.CarriedPredicate{Epoch: 1, Sequence: 1 << 60, IssuedAt: noon, ExpiresAt: noon.Add(time.Hour)},
		trusttest.NewSigner(t))
	must(t, err)
	to, err := i.Target.Repository(t.Context(), bundle.CarriedRepository)
	must(t, err)
	for _, blob := range []bundle.Blob{list, bundle.EmptyBlob()} {
		if there, err := to.Exists(t.Context(), blob.Descriptor); err == nil && !there {
			must(t, store.PushBlob(t.Context(), to, blob))
		}
	}
	must(t, store.PushManifest(t.Context(), to, forged, bundle.CarriedLastTag("berlin")))
	_, err = i.Import(t.Context(), []string{s.packed(s.nextFile(2, "better", nil))})
	must(t, err)
}
