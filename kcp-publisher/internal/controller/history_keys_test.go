package controller

import (
	"fmt"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

func (h *history) newKey() trust.Signer {
	data, err := trust.GenerateKey()
	h.must(err)
	signer, err := trust.LoadSigner(data)
	h.must(err)
	return signer
}

type stolenKey struct {
	thumbprint string
	signer     trust.Signer
}

func (h *history) steal(signer trust.Signer) string {
	public, err := signer.PublicKey()
	h.must(err)
	thumbprint, err := trust.Thumbprint(public)
	h.must(err)
	h.stolen = append(h.stolen, stolenKey{thumbprint, signer})
	return thumbprint
}

func (h *history) change(change func(*keys.Change) error) {
	c, err := h.folder.Change(h.now.AddDate(1, 0, 0))
	h.must(err)
	h.must(change(c))
	_, err = c.Finish(h.folder.RootKeyFiles())
	h.must(err)
	current, err := h.folder.Root()
	h.must(err)
	h.raw = append(h.raw, current)
}

func (h *history) rotatePublisher(dropOld bool) {
	before := h.model.newestRoot()
	h.change(func(c *keys.Change) error { return c.Rotate(h.Context(), trust.RolePublisher, "", dropOld) })
	file, err := os.ReadFile(filepath.Join(h.folder.Dir, keys.FilePublisherKey))
	h.must(err)
	signer, err := trust.LoadSigner(file)
	h.must(err)
	next := before.next(h.now)
	next.signer = h.steal(signer)
	next.listed = map[string]bool{next.signer: true}
	if !dropOld {
		next.listed[before.signer] = true
	}
	h.model.roots = append(h.model.roots, next)
}

// revoke revokes a publisher key. If the key is in use, revoke rotates it first.
func (h *history) revoke() {
	before := h.model.newestRoot()
	revoked := one(h.random, h.stolen...).thumbprint
	if revoked == before.signer {
		return
	}
	h.change(func(c *keys.Change) error { return c.Revoke(revoked) })
	next := before.next(h.now)
	delete(next.listed, revoked)
	h.model.roots = append(h.model.roots, next)
}

func (h *history) rotateRoot() {
	old := h.folder.RootKeyFiles()
	h.change(func(c *keys.Change) error { return c.RotateRoot("") })
	for _, file := range old {
		h.must(os.Remove(file))
	}
	h.model.roots = append(h.model.roots, h.model.newestRoot().next(h.now))
}

func (h *history) newEpoch() {
	h.change(func(c *keys.Change) error { c.Epoch(); return nil })
	next := h.model.newestRoot().next(h.now)
	next.epoch++
	h.model.roots = append(h.model.roots, next)
}

func (h *history) noteRoot(loaded publish.Keys) {
	key := h.steal(loaded.Signer)
	h.raw = []trust.Root{loaded.Root}
	h.model = model{
		roots: []root{{version: 1, epoch: 1, expires: h.now.AddDate(1, 0, 0), signer: key,
			listed: map[string]bool{key: true}}}, published: map[string]*madeBundle{}, offered: map[int64]bool{},
	}
	h.model.forget()
}

func (h *history) hideRoots() { h.removeRoots(h.model.version + 1 - int64(h.random.IntN(2))) }

func (h *history) removeRoots(from int64) {
	if from < 1 {
		return
	}
	for version := from; version <= h.model.newestRoot().version+1; version++ {
		h.place.untag(bundle.TrustRepository, fmt.Sprintf("%s%d", bundle.TagRoot, version))
		delete(h.model.offered, version)
	}
	if h.model.forged >= from {
		h.model.forged = 0
	}
}

// forgeRoot replaces the next root of trust after the agent's current version with a copy that also lists an attacker's
// key.
func (h *history) forgeRoot() {
	draft, err := h.raw[h.model.version-1].Draft(h.now.AddDate(1, 0, 0))
	h.must(err)
	public, err := h.stolen[0].signer.PublicKey()
	h.must(err)
	h.must(draft.Add(trust.RolePublisher, public))
	h.must(draft.Add(trust.RoleRoot, public))
	h.must(draft.Sign(h.stolen[0].signer))
	data, err := draft.Bytes()
	h.must(err)
	h.putNextRoot(data)
}

// exchangeRoot replaces the next root of trust after the agent's current version with another version.
func (h *history) exchangeRoot() {
	if other := one(h.random, h.raw...); other.Version != h.model.version+1 {
		h.putNextRoot(other.Raw)
	}
}

func (h *history) putNextRoot(data []byte) {
	version := h.model.version + 1
	h.removeRoots(version)
	layer := bundle.NewBlob(bundle.MediaTypeRoot, data)
	manifest := bundle.NewBlob(ocispec.MediaTypeImageManifest, fmt.Appendf(nil,
		`{"schemaVersion":2,"mediaType":%q,"artifactType":%q,"config":{"mediaType":%q,"digest":%q,"size":2},`+
			`"layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`,
		ocispec.MediaTypeImageManifest, bundle.ArtifactTypeRoot, ocispec.MediaTypeEmptyJSON,
		bundle.EmptyBlob().Descriptor.Digest,
		layer.Descriptor.MediaType, layer.Descriptor.Digest, layer.Descriptor.Size))
	repository, err := h.place.Repository(h.Context(), bundle.TrustRepository)
	h.must(err)
	for _, blob := range []bundle.Blob{bundle.EmptyBlob(), layer} {
		h.must(store.PushBlob(h.Context(), repository, blob))
	}
	h.must(store.PushManifest(h.Context(), repository, manifest, fmt.Sprintf("%s%d", bundle.TagRoot, version)))
	h.model.forged = version
}
