package publish

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// acceptedState returns the last desired state without the Manifests that agents would refuse now or that the current
// signature policy does not allow.
func (p *Publisher) acceptedState(ctx context.Context, root trust.Root, last bundle.DesiredState) *bundle.DesiredState {
	var kept []bundle.Manifest
	rootDigest := releaseRootDigest(root)
	for _, m := range last.Manifests {
		if p.checkManifest(ctx, root, rootDigest, m) == nil {
			kept = append(kept, m)
		}
	}
	last.Manifests = kept
	return &last
}

// checkRenewal returns an error if agents would refuse a bundle with the last desired state now, or if the current
// signature policy does not allow one of its modules.
func (p *Publisher) checkRenewal(ctx context.Context, root trust.Root, last bundle.DesiredState) error {
	if err := p.checkSettings(root, last.Settings); err != nil {
		return err
	}
	rootDigest := releaseRootDigest(root)
	for _, m := range slices.Concat(last.All(), last.Offers) {
		if err := p.checkManifest(ctx, root, rootDigest, m); err != nil {
			return fmt.Errorf("module %s: %w", m.Module, err)
		}
	}
	return nil
}

// checkSettings returns an error if agents would refuse the settings because of the root's release keys or minimum
// versions.
func (p *Publisher) checkSettings(root trust.Root, s bundle.Settings) error {
	return bundle.CheckReleases(root, bundle.DesiredState{Settings: s}, nil, render.DefaultCR, p.Now())
}

var errNotReleased = errors.New("the current release keys do not prove this version")

func releaseRootDigest(root trust.Root) digest.Digest {
	if !root.HasReleaseKeys() {
		return ""
	}
	return digest.FromBytes(root.Raw)
}

// checkManifest returns an error if agents would refuse a Manifest of the last bundle now, or if the current signature
// policy does not allow it. rootDigest is the result of releaseRootDigest.
func (p *Publisher) checkManifest(
	ctx context.Context, root trust.Root, rootDigest digest.Digest, m bundle.Manifest,
) error {
	if err := root.CheckFloor(m.Component, m.Version); err != nil {
		return err
	}
	if root.HasReleaseKeys() && !p.isReleased(ctx, root, rootDigest, m) {
		return errNotReleased
	}
	if p.RequiresSignature != nil && p.RequiresSignature(m.Component) {
		// After any other error, the result is unknown. The Manifest stays, because this publisher accepted it before.
		err := p.Components.CheckAccepted(ctx, m.Component, m.Version)
		if errors.Is(err, component.ErrRefused) || errors.Is(err, component.ErrMissing) {
			return err
		}
	}
	return nil
}

// releaseKey identifies a root of trust and a Manifest.
type releaseKey [sha256.Size]byte

// maxReleases limits the cached results of isReleased.
const maxReleases = 2_000

func newReleases() *memo.Memo[releaseKey, bool] {
	return memo.New(memo.Limit{Bytes: maxReleases * memo.EntryBytes},
		func(releaseKey, bool) int { return memo.EntryBytes })
}

// isReleased reports whether agents accept the release proof of a Manifest in the last bundle. If the release key was
// revoked since then, agents refuse a whole bundle with this Manifest. If the proof cannot be read, the result is
// unknown, and isReleased returns true.
func (p *Publisher) isReleased(
	ctx context.Context, root trust.Root, rootDigest digest.Digest, m bundle.Manifest,
) bool {
	if !m.CanProveRelease() {
		return false
	}
	key := releaseKey(sha256.Sum256(append(memo.Encode(m), rootDigest...)))
	if released, known := p.releases.Get(key); known {
		return released
	}
	documents, err := p.readEvidence(ctx, m)
	if err != nil {
		return true
	}
	state := bundle.DesiredState{Manifests: []bundle.Manifest{m}}
	released := bundle.CheckReleases(root, state, documents, render.DefaultCR, p.Now()) == nil
	p.releases.Put(key, released)
	return released
}

func (p *Publisher) readEvidence(ctx context.Context, m bundle.Manifest) (map[digest.Digest][]byte, error) {
	repository, err := p.Place.Repository(ctx, bundle.ContentRepository)
	if err != nil {
		return nil, err
	}
	documents := map[digest.Digest][]byte{}
	for _, c := range m.Evidence() {
		if documents[c.Digest], err = store.FetchBlob(ctx, repository, c.Descriptor(), bundle.MaxLayerBytes); err != nil {
			return nil, err
		}
	}
	return documents, nil
}
