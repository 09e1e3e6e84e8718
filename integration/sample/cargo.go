package sample

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Cargo is a bundle with one module whose image can have any size, for air-gap tests.
type Cargo struct {
	Registries *store.Registries
	// Prefix is the registry's host and path.
	Prefix string
	// Keys is the folder with the root of trust and the publisher's key.
	Keys    string
	Runtime string
	// Layers is the number of the image's layers. Each has LayerBytes of incompressible data.
	Layers     int
	LayerBytes int64
}

const cargoPod = `apiVersion: v1
kind: Pod
metadata: {name: cargo, namespace: {{ .Release.Namespace }}}
spec: {containers: [{name: cargo, image: "{{ .Values.image }}:{{ .Chart.Version }}"}]}
`

// Publish pushes the image and the bundle.
func (c Cargo) Publish(ctx context.Context) error {
	repository, err := c.Registries.Repository(c.Prefix + "/cargo")
	if err != nil {
		return err
	}
	config := bundle.NewBlob(ocispec.MediaTypeImageConfig, []byte(`{}`))
	if err := store.PushBlob(ctx, repository, config); err != nil {
		return err
	}
	image := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config.Descriptor,
	}
	for i := range c.Layers {
		layer, err := c.pushLayer(ctx, repository, byte(i))
		if err != nil {
			return fmt.Errorf("push layer %d: %w", i, err)
		}
		image.Layers = append(image.Layers, layer)
	}
	data, err := json.Marshal(image)
	if err != nil {
		return err
	}
	if err := store.PushManifest(ctx, repository, bundle.NewBlob(ocispec.MediaTypeImageManifest, data),
		"1.0.0"); err != nil {
		return err
	}
	return c.pushBundle(ctx)
}

// pushLayer pushes a layer of pseudorandom bytes. It generates the bytes twice instead of buffering them.
func (c Cargo) pushLayer(ctx context.Context, to oras.Target, seed byte) (ocispec.Descriptor, error) {
	noise := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{seed}), c.LayerBytes) }
	hash := sha256.New()
	if _, err := io.Copy(hash, noise()); err != nil {
		return ocispec.Descriptor{}, err
	}
	d := ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageLayer, Digest: digest.NewDigest(digest.SHA256, hash), Size: c.LayerBytes,
	}
	return d, to.Push(ctx, d, noise())
}

func (c Cargo) pushBundle(ctx context.Context) error {
	place, err := store.Open(c.Prefix, c.Registries)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(c.Keys, "publisher.key"))
	if err != nil {
		return err
	}
	signer, err := trust.LoadSigner(key)
	if err != nil {
		return err
	}
	content := bundle.NewBlob(mediaTypeTar, Tar(
		"cargo/Chart.yaml", "apiVersion: v2\nname: cargo\nversion: 1.0.0\nkubeVersion: '>=1.25.0-0'\n",
		"cargo/values.yaml", "image: "+c.Prefix+"/cargo\n",
		"cargo/templates/pod.yaml", cargoPod,
	))
	source, err := json.Marshal(v1beta2.ImageSpec{Type: v1beta2.HelmChart, Ref: content.Descriptor.Digest.String()})
	if err != nil {
		return err
	}
	if err := store.ShareBlob(ctx, place, content); err != nil {
		return err
	}
	documents, err := bundle.NewDocuments(bundle.DesiredState{CRDs: []string{}, Manifests: []bundle.Manifest{{
		Name: "cargo", Module: "cargo", Version: "1.0.0",
		Spec: v1beta2.ManifestSpec{
			Version: "1.0.0", Install: v1beta2.InstallInfo{Name: "cargo", Source: runtime.RawExtension{Raw: source}},
		},
		Content: []bundle.Content{{
			Name: "raw-manifest", Repository: "./" + bundle.ContentRepository, MediaType: mediaTypeTar,
			Digest: content.Descriptor.Digest, SizeBytes: content.Descriptor.Size,
		}},
	}}}, bundle.Catalog{})
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	manifest, err := bundle.Compose(documents, bundle.Predicate{
		Audience: bundle.Audience{Runtime: c.Runtime}, Epoch: 1, RootVersion: 1, Sequence: now.UnixMilli(),
		IssuedAt: now, ExpiresAt: now.Add(24 * time.Hour),
	}, signer)
	if err != nil {
		return err
	}
	return storetest.PushBundle(ctx, place, c.Runtime, documents, manifest)
}
