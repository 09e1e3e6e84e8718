package scenario

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// prune runs `registry prune` with the pruner's password.
func prune(t *testing.T, f *fleet.Fleet, args ...string) (string, int) {
	t.Helper()
	config := filepath.Join(f.Dir, "_pruner.json")
	if _, err := os.Stat(config); err != nil {
		output, code := fleet.Run(t.Context(), f.Binaries().Publisher, "registry", "credentials", "_pruner", "--keys",
			f.Keys(), "--location", f.Location())
		if code != 0 {
			t.Fatal(output)
		}
		must(t, os.WriteFile(config, []byte(output), 0o600))
	}
	return fleet.Run(t.Context(), f.Binaries().Publisher, append([]string{
		"registry", "prune", "--to", f.Location(), "--trust", filepath.Join(f.Keys(), "root.json"), "--kubeconfig",
		filepath.Join(f.Dir, "kcp.kubeconfig"),
		"--registry-config", config, "--registry-ca", filepath.Join(f.Dir, "ca.pem"),
	}, args...)...)
}

// history pushes bundles that are older than a runtime's newest bundle. The first of them refers to content that other
// bundles do not use.
func history(
	t *testing.T, f *fleet.Fleet, r *fleet.Runtime,
) (old []bundle.Blob, documents bundle.Documents, content bundle.Blob) {
	t.Helper()
	ctx := t.Context()
	content = bundle.NewBlob("application/x-tar", bytes.Repeat([]byte("old content "), 1000))
	must(t, store.ShareBlob(ctx, f.Place, content))
	documents, err := bundle.NewDocuments(bundle.DesiredState{}, bundle.Catalog{})
	must(t, err)
	must(t, storetest.ShareDocuments(ctx, f.Place, documents))
	newest, err := r.Desired(ctx)
	must(t, err)
	predicate := predicateOf(t, f, r, bundle.Blob(newest))
	var previous *bundle.Position
	for i, days := range []int{90, 80, 70} {
		p := predicate
		p.Sequence, p.IssuedAt, p.ExpiresAt, p.Previous = int64(1000+i), time.Now().AddDate(0, 0, -days),
			time.Now().AddDate(0, 0, 7-days), previous
		d := documents
		if i > 0 {
			d = documentsIn(t, f, r, newest)
		}
		manifest, err := bundle.Compose(d, p, publisherKey(t, f))
		must(t, err)
		for _, blob := range []bundle.Blob{documents.State, documents.Catalog} {
			repository, err := f.Place.Repository(ctx, bundle.DesiredRepository(r.ID))
			must(t, err)
			must(t, store.PushBlob(ctx, repository, blob))
		}
		must(t, r.Put(ctx, manifest))
		previous = &bundle.Position{Sequence: p.Sequence, Digest: manifest.Descriptor.Digest}
		old = append(old, manifest)
	}
	must(t, r.Put(ctx, forged(t, f, r, publisherKey(t, f), func(p *bundle.Predicate) {
		p.Sequence, p.IssuedAt, p.ExpiresAt, p.Previous = predicate.Sequence+1, predicate.IssuedAt, predicate.ExpiresAt,
			previous
	})))
	return old, documents, content
}

func documentsIn(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, fetched bundle.Fetched) bundle.Documents {
	t.Helper()
	verified, err := bundle.Adopt(fetched, r.ID, rootOf(t, f))
	must(t, err)
	return bundle.Documents{
		State: bundle.Blob{Descriptor: verified.Config}, Catalog: bundle.Blob{Descriptor: verified.Catalog},
	}
}

// backdate changes the list of unused manifests as if prune had recorded them long ago.
func backdate(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	ctx := t.Context()
	repository, err := f.Place.Repository(ctx, "pruning")
	must(t, err)
	fetched, err := store.Fetch(ctx, repository, "unused")
	must(t, err)
	var manifest ocispec.Manifest
	must(t, json.Unmarshal(fetched.Bytes, &manifest))
	data, err := store.FetchBlob(ctx, repository, manifest.Layers[0], bundle.MaxDocumentBytes)
	must(t, err)
	var note struct {
		Version int                  `json:"version"`
		Unused  map[string]time.Time `json:"unused"`
	}
	must(t, json.Unmarshal(data, &note))
	for key := range note.Unused {
		note.Unused[key] = time.Now().AddDate(0, 0, -31)
	}
	data, err = json.Marshal(note)
	must(t, err)
	layer := bundle.NewBlob(manifest.Layers[0].MediaType, data)
	manifest.Layers = []ocispec.Descriptor{layer.Descriptor}
	blob, err := bundle.NewManifest(manifest)
	must(t, err)
	must(t, store.PushBlob(ctx, repository, layer))
	must(t, store.PushManifest(ctx, repository, blob, "unused"))
}

func has(t *testing.T, f *fleet.Fleet, repository, reference string) bool {
	t.Helper()
	reader, err := f.Place.Reading(t.Context(), repository)
	must(t, err)
	_, err = store.Fetch(t.Context(), reader, reference)
	return err == nil
}

// The test prunes a registry with old content and a removed runtime, collects its garbage, and checks that the fleet
// continues to work.
func TestPruneRemovesOnlyUnneededContent(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Tokens: true})
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	must(t, f.Control.Create(ctx, fleet.NewKyma("tokyo", "regular", "mailer")))
	until(t, 30*time.Second, "tokyo has a bundle", func() (bool, string) {
		return has(t, f, "runtimes/tokyo", bundle.TagDesired), "none yet"
	})
	untilQuiet(t, f)
	f.Publisher().Stop()
	old, documents, content := history(t, f, berlin)
	tokyo := fleet.NewKyma("tokyo", "regular", "mailer")
	must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(tokyo), tokyo))
	tokyo.Finalizers = nil
	must(t, f.Control.Update(ctx, tokyo))
	must(t, f.Control.Delete(ctx, tokyo))
	_, contentTag, err := store.ContentHolder(content.Descriptor)
	must(t, err)
	stays := func(what string) {
		t.Helper()
		for i, m := range old {
			if !has(t, f, "runtimes/berlin", m.Descriptor.Digest.String()) {
				t.Errorf("%s: bundle %d was removed", what, i)
			}
		}
		if !has(t, f, bundle.ContentRepository, contentTag) || !has(t, f, "runtimes/tokyo", bundle.TagDesired) {
			t.Errorf("%s: content or tokyo's bundle was removed", what)
		}
	}

	if output, code := prune(t, f, "--namespace", "nobody"); code != 1 ||
		!strings.Contains(output, "no Kymas found in namespace nobody") {
		t.Errorf("prune with a namespace without Kymas: exit code %d\n%s", code, output)
	}
	kubeconfig, err := os.ReadFile(filepath.Join(f.Dir, "kcp.kubeconfig"))
	must(t, err)
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(nowhere,
		regexp.MustCompile(`server: .*`).ReplaceAll(kubeconfig, []byte("server: https://127.0.0.1:1")), 0o600))
	if output, code := prune(t, f, "--kubeconfig", nowhere); code != 1 ||
		!strings.Contains(output, "connection refused") {
		t.Errorf("prune without the control plane: exit code %d\n%s", code, output)
	}
	if output, code := prune(t, f, "--gone", "berlin"); code != 2 ||
		!strings.Contains(output, "this runtime still has a Kyma in namespace kcp-system") {
		t.Errorf("prune --gone of a runtime with a Kyma: exit code %d\n%s", code, output)
	}
	stays("refused prune")
	if output, code := prune(t, f, "--dry-run"); code != 0 || strings.Count(output, "would be removed") < 2 ||
		!strings.Contains(output, "runtime tokyo has no Kyma in namespace kcp-system, but its data is not removed") {
		t.Errorf("dry run: exit code %d\n%s", code, output)
	}
	stays("dry run")
	if has(t, f, "pruning", "unused") {
		t.Error("a dry run recorded unused manifests")
	}

	// The first prune removes old bundles, but only records unused shared manifests. A prune that runs long enough
	// afterwards removes them.
	output, code := prune(t, f)
	if code != 0 || !strings.Contains(output, "bundle, superseded") {
		t.Fatalf("registry prune: exit code %d\n%s", code, output)
	}
	// The newest bundle's direct predecessor must not be removed.
	for i, want := range []bool{false, false, true} {
		if got := has(t, f, "runtimes/berlin", old[i].Descriptor.Digest.String()); got != want {
			t.Errorf("bundle %d exists: %v, want %v\n%s", i, got, want, output)
		}
	}
	if !has(t, f, bundle.ContentRepository, contentTag) {
		t.Errorf("content was removed when first found unused\n%s", output)
	}

	// A month later, prune removes unused shared manifests, and manifests for runtimes that an operator listed with
	// --gone.
	backdate(t, f)
	if output, code = prune(t, f, "--gone", "tokyo"); code != 0 {
		t.Fatalf("registry prune: exit code %d\n%s", code, output)
	}
	for repository, reference := range map[string]string{bundle.ContentRepository: contentTag,
		"runtimes/tokyo": bundle.TagDesired} {
		if has(t, f, repository, reference) {
			t.Errorf("%s:%s still exists\n%s", repository, reference, output)
		}
	}
	before, err := f.Registry.Blobs()
	must(t, err)
	must(t, f.Registry.CollectGarbage(ctx, true))
	after, err := f.Registry.Blobs()
	must(t, err)
	if after >= before {
		t.Errorf("%d blobs before the garbage collection, %d after it", before, after)
	}
	repository, err := f.Place.Repository(ctx, bundle.ContentRepository)
	must(t, err)
	for _, blob := range []bundle.Blob{content, documents.State} {
		if there, err := store.Has(ctx, repository, blob.Descriptor); err != nil || there {
			t.Errorf("blob %s exists: %v, error %v", blob.Descriptor.Digest, there, err)
		}
	}

	// The fleet continues to work.
	must(t, f.StartPublisher())
	promote(t, f, "1.8.0")
	must(t, berlin.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	if output, code = prune(t, f, "-o", "json"); code != 0 || strings.Contains(output, digest.FromString("").String()) {
		t.Errorf("last prune: exit code %d\n%s", code, output)
	}
}
