package importer

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// sender is a control plane that exports files for runtime berlin.
type sender struct {
	t      *testing.T
	signer trust.Signer
	root   trust.Root
	last   *bundle.Position
	known  map[digest.Digest]bool
	// offers contains the modules that the runtime can select.
	offers []bundle.Manifest
}

func newSender(t *testing.T) *sender {
	t.Helper()
	signer := trusttest.NewSigner(t)
	public, err := signer.PublicKey()
	must(t, err)
	data, err := trusttest.NewRoot(trusttest.NewSigner(t), []crypto.PublicKey{public}, noon.AddDate(1, 0, 0))
	must(t, err)
	root, err := trust.ParseRoot(data)
	must(t, err)
	return &sender{t: t, signer: signer, root: root, known: map[digest.Digest]bool{}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// next exports the next bundle and returns the file's path. A delta omits the content of previous files.
func (s *sender) next(sequence int64, delta bool, modules ...string) string {
	s.t.Helper()
	layout := s.layout(sequence, delta, modules...)
	path := filepath.Join(s.t.TempDir(), "file.tar")
	_, err := airgap.Write(s.t.Context(), path, layout, airgap.Packing{}, func(int64) {})
	must(s.t, err)
	return path
}

func (s *sender) layout(sequence int64, delta bool, modules ...string) airgap.Layout {
	s.t.Helper()
	var layout airgap.Layout
	add := func(blob bundle.Blob, name string) {
		if delta && s.known[blob.Descriptor.Digest] {
			return
		}
		s.known[blob.Descriptor.Digest] = true
		layout.Items = append(layout.Items, airgap.InMemory(blob))
		if name != "" {
			layout.References = append(layout.References, airgap.Reference{Name: name, Descriptor: blob.Descriptor})
		}
	}
	state := bundle.DesiredState{CRDs: []string{}, Offers: s.offers}
	if len(s.offers) > 0 {
		state.Settings.Autonomy = bundle.AutonomyCatalog
	}
	for _, module := range modules {
		content := bundle.NewBlob("application/x-tar", contentOf(module))
		add(content, "")
		state.Manifests = append(state.Manifests, bundle.Manifest{
			Name: module, Module: module, Version: "1.0.0", Spec: v1beta2.ManifestSpec{Version: "1.0.0"},
			Content: []bundle.Content{{
				Name: "raw-manifest", Repository: "far.example/modules", MediaType: content.Descriptor.MediaType,
				Digest: content.Descriptor.Digest, SizeBytes: content.Descriptor.Size,
			}},
		})
	}
	documents, err := bundle.NewDocuments(state, bundle.Catalog{})
	must(s.t, err)
	add(documents.State, "")
	add(documents.Catalog, "")
	manifest, err := bundle.Compose(documents, bundle.Predicate{
		Audience: bundle.Audience{Runtime: "berlin"}, Epoch: 1, Sequence: sequence, Previous: s.last,
		IssuedAt: noon.Add(-time.Hour), ExpiresAt: noon.Add(time.Hour), RootVersion: 1,
	}, s.signer)
	must(s.t, err)
	s.last = &bundle.Position{Sequence: sequence, Digest: manifest.Descriptor.Digest}
	add(manifest, "runtimes/berlin:desired")
	return layout
}

// contentOf returns large content, so that an import can be interrupted between reads.
func contentOf(module string) []byte { return bytes.Repeat([]byte(module+" "), 50_000) }

func (s *sender) importer(dir string) Importer {
	s.t.Helper()
	place, err := store.Open(store.LayoutScheme+dir, nil)
	must(s.t, err)
	return Importer{Target: place, Root: s.root, Now: func() time.Time { return noon }}
}

func sequenceAt(t *testing.T, i Importer) int64 {
	t.Helper()
	target, err := i.openRepository(t.Context(), "runtimes/berlin")
	must(t, err)
	last, err := i.lastBundle(t.Context(), target, i.Root, "berlin")
	must(t, err)
	return last.Sequence
}

// whole checks that the target has the complete content of the modules.
func whole(t *testing.T, i Importer, modules ...string) {
	t.Helper()
	for _, module := range modules {
		target, err := i.openRepository(t.Context(), bundle.ContentRepository)
		must(t, err)
		want := bundle.NewBlob("application/x-tar", contentOf(module))
		if data, err := store.FetchBlob(t.Context(), target, want.Descriptor, 1<<20); err != nil ||
			!bytes.Equal(data, want.Bytes) {
			t.Errorf("got error %v or wrong content of module %s", err, module)
		}
		if _, err := store.Head(t.Context(), target, "blob-"+want.Descriptor.Digest.Encoded()[:32]); err != nil {
			t.Errorf("got error %v, want a manifest that refers to the content of %s", err, module)
		}
	}
}

func TestDeltasAreImportedInOrder(t *testing.T) {
	s := newSender(t)
	i := s.importer(filepath.Join(t.TempDir(), "target"))
	first, second, third := s.next(1, false, "keda"), s.next(2, true, "keda", "nats"),
		s.next(3, true, "keda", "nats", "istio")

	outcome, err := i.Import(t.Context(), []string{first})
	must(t, err)
	if len(outcome.Bundles) != 1 || outcome.Bundles[0].Sequence != 1 || outcome.WrittenCount == 0 {
		t.Errorf("got outcome %+v, want bundle 1 written", outcome)
	}
	_, err = i.Import(t.Context(), []string{third})
	if refused := refusal.Of(err); refused == nil || refused.Reason != refusal.Incomplete {
		t.Fatalf("got error %v for the third file after the first, want %s", err, refusal.Incomplete)
	}
	nats := digest.FromBytes(contentOf("nats")).String()
	for _, want := range []string{nats, "module nats", "the target has bundle 1",
		"the predecessor of this bundle is 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "module keda") || strings.Contains(err.Error(), "module istio") {
		t.Errorf("got error %v, want only missing content in it", err)
	}
	if got := sequenceAt(t, i); got != 1 {
		t.Errorf("got bundle %d at the target, want 1", got)
	}
	for n, path := range []string{second, third} {
		if _, err := i.Import(t.Context(), []string{path}); err != nil {
			t.Fatalf("failed to import delta %d: %v", n+2, err)
		}
	}
	whole(t, i, "keda", "nats", "istio")
	again, err := i.Import(t.Context(), []string{third})
	if err != nil || again.WrittenCount != 0 {
		t.Errorf("got outcome %+v and error %v of a repeated import, want nothing written", again, err)
	}
	_, err = i.Import(t.Context(), []string{second})
	if refused := refusal.Of(err); refused == nil || refused.Reason != refusal.Rollback {
		t.Errorf("got error %v for an older file, want %s", err, refusal.Rollback)
	}
}

func TestRefusedFileWritesNothing(t *testing.T) {
	s, stranger := newSender(t), newSender(t)
	good := s.next(5, false, "keda")
	data, err := os.ReadFile(good)
	must(t, err)
	mutated := func(change func([]byte) []byte) string {
		path := filepath.Join(t.TempDir(), "file.tar")
		must(t, os.WriteFile(path, change(bytes.Clone(data)), 0o600))
		return path
	}
	repacked := func(change func(*airgap.Layout)) string {
		layout := newSenderLike(t, s).layout(5, false, "keda")
		change(&layout)
		path := filepath.Join(t.TempDir(), "file.tar")
		_, err := airgap.Write(t.Context(), path, layout, airgap.Packing{}, func(int64) {})
		must(t, err)
		return path
	}
	image := bundle.NewBlob(ocispec.MediaTypeImageManifest, []byte(`{"schemaVersion":2}`))
	late := func() time.Time { return noon.Add(2 * time.Hour) }
	for name, c := range map[string]struct {
		path   string
		reason refusal.Reason
		now    func() time.Time
	}{
		"file with one changed bit": {
			mutated(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), refusal.WrongDigest, nil,
		},
		"truncated file": {
			mutated(func(b []byte) []byte { return b[:len(b)*2/3] }), refusal.Malformed, nil,
		},
		"file without the end of the archive": {
			mutated(func(b []byte) []byte { return b[:len(b)-1024] }), refusal.Malformed, nil,
		},
		"first block moved to the end": {
			mutated(func(b []byte) []byte { return append(b[4096:], b[:4096]...) }), refusal.Malformed, nil,
		},
		"bundle signed with an unknown key": {stranger.next(9, false, "keda"), refusal.UnknownKey, nil},
		"bundle expired":                    {good, refusal.Expired, late},
		"file without the content of a module": {
			repacked(func(l *airgap.Layout) { l.Items = l.Items[1:] }), refusal.Incomplete, nil,
		},
		"file without a bundle": {
			repacked(func(l *airgap.Layout) { l.References = nil }), refusal.Malformed, nil,
		},
		"file with an unexpected reference": {
			repacked(func(l *airgap.Layout) { l.References[0].Name = "elsewhere/x:1" }), refusal.Malformed, nil,
		},
		"bundle for another runtime": {
			repacked(func(l *airgap.Layout) { l.References[0].Name = "runtimes/munich:desired" }), refusal.WrongRuntime,
			nil,
		},
		"runtime ID with a path": {
			repacked(func(l *airgap.Layout) { l.References[0].Name = "runtimes/../x:desired" }), refusal.Malformed, nil,
		},
		"image without an image list": {repacked(func(l *airgap.Layout) {
			l.Items = append(l.Items, airgap.InMemory(image))
			l.References = append(l.References, airgap.Reference{
				Name: "images/docker.io/library/nginx:1", Descriptor: image.Descriptor,
			})
		}), refusal.Unsigned, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "target")
			i := s.importer(dir)
			if c.now != nil {
				i.Now = c.now
			}
			_, err := i.Import(t.Context(), []string{c.path})
			if refusal := refusal.Of(err); refusal == nil || refusal.Reason != c.reason {
				t.Errorf("got error %v, want %s", err, c.reason)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got error %v from reading the target, want it not to exist", err)
			}
		})
	}
}

// newSenderLike returns a sender that has the same keys and has not exported a file yet.
func newSenderLike(t *testing.T, s *sender) *sender {
	return &sender{t: t, signer: s.signer, root: s.root, known: map[digest.Digest]bool{}}
}

func TestExportFileCanOmitOfferedContentButNotProofs(t *testing.T) {
	named := func(module string) []bundle.Content {
		blob := bundle.NewBlob("application/x-tar", contentOf(module))
		return []bundle.Content{{
			Name: "raw-manifest", Repository: "far.example/modules", MediaType: blob.Descriptor.MediaType,
			Digest: blob.Descriptor.Digest, SizeBytes: blob.Descriptor.Size,
		}}
	}
	offer := bundle.Manifest{
		Name:    "nats",
		Module:  "nats",
		Channel: "fast",
		Version: "1.0.0",
		Spec:    v1beta2.ManifestSpec{Version: "1.0.0"},
		Content: named("nats"),
	}
	s := newSender(t)
	s.offers = []bundle.Manifest{offer}
	i := s.importer(filepath.Join(t.TempDir(), "target"))
	if _, err := i.Import(t.Context(), []string{s.next(1, false, "keda")}); err != nil {
		t.Errorf("got error %v for a file without the content of an offer, want none", err)
	}
	s.offers[0].Release = named("proof of nats")
	_, err := i.Import(t.Context(), []string{s.next(2, false, "keda")})
	if refused := refusal.Of(err); refused == nil || refused.Reason != refusal.Incomplete ||
		!strings.Contains(err.Error(), s.offers[0].Release[0].Digest.String()) {
		t.Errorf("got error %v for a file without the proof of an offer, want %s", err, refusal.Incomplete)
	}
	layout := s.layout(3, false, "keda")
	for _, module := range []string{"nats", "proof of nats"} {
		layout.Items = append(layout.Items, airgap.InMemory(bundle.NewBlob("application/x-tar", contentOf(module))))
	}
	path := filepath.Join(t.TempDir(), "file.tar")
	_, err = airgap.Write(t.Context(), path, layout, airgap.Packing{}, func(int64) {})
	must(t, err)
	_, err = i.Import(t.Context(), []string{path})
	must(t, err)
	whole(t, i, "keda", "nats", "proof of nats")
}

func TestInterruptedImportContinues(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newSender(t)
	i := s.importer(filepath.Join(t.TempDir(), "target"))
	first, second := s.next(1, false, "keda"), s.next(2, true, "keda", "nats", "istio", "eventing")
	_, err := i.Import(t.Context(), []string{first})
	must(t, err)
	for killed := 0; ; killed++ {
		ctx, kill := context.WithCancel(t.Context())
		left := 1 + random.IntN(8) // the import reads each blob twice: to verify it and to write it
		dying := i
		dying.OnProgress = func(int64) {
			if left--; left == 0 {
				kill()
			}
		}
		_, err := dying.Import(ctx, []string{second})
		kill()
		if err == nil {
			break
		}
		if killed > 500 {
			t.Fatal("the import did not complete after 500 interruptions")
		}
		if got := sequenceAt(t, i); got != 1 {
			t.Fatalf("got bundle %d at the target of an interrupted import, want 1", got)
		}
		whole(t, i, "keda")
		if killed == 20 { // let the last run complete
			_, err := i.Import(t.Context(), []string{second})
			must(t, err)
			break
		}
	}
	if got := sequenceAt(t, i); got != 2 {
		t.Errorf("got bundle %d at the target, want 2", got)
	}
	whole(t, i, "keda", "nats", "istio", "eventing")
}

func TestFolderImportsFilesInOrder(t *testing.T) {
	s := newSender(t)
	i := s.importer(filepath.Join(t.TempDir(), "target"))
	dir := t.TempDir()
	drop := func(name, from string) {
		data, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	first, second := s.next(1, false, "keda"), s.next(2, true, "keda", "nats")
	third := s.next(3, true, "keda", "nats", "istio")
	folder := &Folder{Dir: dir}
	poll := func() string {
		t.Helper()
		taken, err := folder.Import(t.Context(), i)
		must(t, err)
		var messages []string
		for _, x := range taken {
			output := "taken"
			if refusal := refusal.Of(x.Err); refusal != nil {
				output = string(refusal.Reason)
			} else if x.Err != nil {
				output = x.Err.Error()
			}
			messages = append(messages, filepath.Base(x.File)+" "+output)
		}
		return fmt.Sprint(messages)
	}
	for n, step := range []struct {
		drop, from, want string
	}{
		{"a-second.tar", second, "[]"}, // could still be an incomplete copy
		{"", "", "[a-second.tar Incomplete]"},
		{"", "", "[]"}, // the scan reports each refusal once
		{"b-first.tar", first, "[]"},
		{"notes.txt", first, "[b-first.tar taken a-second.tar taken]"},
		{"", "", "[]"},
		{"c-late.tar", first, "[]"},
		{"", "", "[c-late.tar Rollback]"},
		{"", "", "[]"},
		{"d-parts.tar.002", first, "[]"},
		{"e-third.tar", third, "[d-parts.tar.002 Incomplete]"}, // an incomplete file does not block other files
		{"", "", "[e-third.tar taken]"},
		{"d-parts.tar.001", first, "[]"},
		{"", "", "[d-parts.tar.002 Malformed]"},
	} {
		if step.drop != "" {
			drop(step.drop, step.from)
		}
		if got := poll(); got != step.want {
			t.Errorf("scan %d: got %s, want %s", n, got, step.want)
		}
	}
	whole(t, i, "keda", "nats", "istio")
}

func TestPostponedFileIsRetriedAfterAnError(t *testing.T) {
	s := newSender(t)
	blocked := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(blocked, nil, 0o600))
	working, failing := s.importer(filepath.Join(t.TempDir(), "target")), s.importer(filepath.Join(blocked, "target"))
	folder := &Folder{Dir: t.TempDir()}
	drop := func(name, from string) {
		data, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(folder.Dir, name), data, 0o600))
	}
	first, second := s.next(1, false, "keda"), s.next(2, true, "keda", "nats")
	drop("second.tar", second)
	for n, step := range []struct {
		importer Importer
		want     int
	}{{working, 0}, {working, 0}, {working, 0}, {failing, 0}, {working, 2}} {
		if n == 2 {
			drop("first.tar", first)
		}
		taken, err := folder.Import(t.Context(), step.importer)
		must(t, err)
		taken = slices.DeleteFunc(taken, func(r FileResult) bool { return r.Err != nil })
		if len(taken) != step.want {
			t.Errorf("scan %d: got %d imported files, want %d", n, len(taken), step.want)
		}
	}
	whole(t, working, "keda", "nats")
}

func TestExpiredFileIsImportedAfterTheClockIsSetBack(t *testing.T) {
	for want, ahead := range map[refusal.Reason]time.Duration{
		refusal.Expired: 30 * 24 * time.Hour, refusal.RootExpired: 400 * 24 * time.Hour,
	} {
		t.Run(string(want), func(t *testing.T) {
			s := newSender(t)
			i := s.importer(filepath.Join(t.TempDir(), "target"))
			folder := &Folder{Dir: t.TempDir()}
			data, err := os.ReadFile(s.next(1, false, "keda"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(folder.Dir, "file.tar"), data, 0o600))
			for n, step := range []struct {
				offset time.Duration
				want   refusal.Reason
				count  int
			}{{ahead, "", 0}, {ahead, want, 1}, {ahead + time.Hour, "", 0}, {0, "", 1}, {0, "", 0}} {
				i.Now = func() time.Time { return noon.Add(step.offset) }
				taken, err := folder.Import(t.Context(), i)
				must(t, err)
				if len(taken) != step.count {
					t.Fatalf("scan %d: got %d results, want %d", n, len(taken), step.count)
				}
				for _, r := range taken {
					if got := refusal.Of(r.Err); (got == nil) != (step.want == "") || got != nil && got.Reason != step.want {
						t.Errorf("scan %d: got error %v, want %q", n, r.Err, step.want)
					}
				}
			}
			whole(t, i, "keda")
		})
	}
}

// A client that can write to the folder can create files with any number of different names.
func TestFolderForgetsDeletedFiles(t *testing.T) {
	i := newSender(t).importer(filepath.Join(t.TempDir(), "target"))
	folder := &Folder{Dir: t.TempDir()}
	for n := range 20 {
		path := filepath.Join(folder.Dir, fmt.Sprintf("%d.tar", n))
		must(t, os.WriteFile(path, []byte("not an archive"), 0o600))
		for range 2 { // the first scan skips the file, because it could still be incomplete
			_, err := folder.Import(t.Context(), i)
			must(t, err)
		}
		must(t, os.Remove(path))
	}
	_, err := folder.Import(t.Context(), i)
	must(t, err)
	if len(folder.handled)+len(folder.reported)+len(folder.incomplete)+len(folder.seen)+len(folder.expired) > 0 {
		t.Errorf("records of deleted files remain: %v, %v, %v", folder.handled, folder.reported, folder.incomplete)
	}
}
