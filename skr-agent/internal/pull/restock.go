package pull

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// VerifyContents verifies stored blobs. It deletes damaged blobs and returns the digests of damaged and missing blobs.
func (p *Puller) VerifyContents(ctx context.Context, suspects []digest.Digest) (lost []digest.Digest, err error) {
	for _, d := range suspects {
		whole, err := p.Store.Recheck(ctx, d)
		if err != nil {
			return lost, err
		}
		if !whole {
			lost = append(lost, d)
		}
	}
	return lost, nil
}

// StageDocuments stores the last accepted bundle's missing documents and release proofs. Restore needs the documents
// after a restart.
func (p *Puller) StageDocuments(ctx context.Context) error {
	if p.current == nil {
		return nil
	}
	for _, d := range []ocispec.Descriptor{p.current.Config, p.current.Catalog} {
		if err := p.storeIfMissing(ctx, d.Digest, func() ([]byte, error) { return p.readDocument(ctx, d) }); err != nil {
			return fmt.Errorf("documents of the last accepted bundle: %w", err)
		}
	}
	if !p.Trust.Root.HasReleaseKeys() {
		return nil
	}
	for _, m := range slices.Concat(p.current.State.All(), p.current.State.Offers) {
		for _, c := range m.Evidence() {
			if err := p.storeIfMissing(ctx, c.Digest, func() ([]byte, error) { return p.readProof(ctx, c) }); err != nil {
				return fmt.Errorf("module %s: release proof: %w", m.Module, err)
			}
		}
	}
	return nil
}

func (p *Puller) storeIfMissing(ctx context.Context, d digest.Digest, read func() ([]byte, error)) error {
	there, err := p.Store.Has(ctx, d)
	if err != nil || there {
		return err
	}
	data, err := read()
	if err != nil {
		return err
	}
	return p.Store.Put(ctx, d, data)
}

// readDocument reads one of the last accepted bundle's documents from the registry.
func (p *Puller) readDocument(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	repository, err := p.location.current.Reading(ctx, bundle.DesiredRepository(p.Trust.Runtime))
	if err != nil {
		return nil, err
	}
	data, err := store.FetchBlob(ctx, repository, d, bundle.MaxDocumentBytes)
	if errors.Is(err, store.ErrNotFound) {
		return nil,
			fmt.Errorf("document %s was removed from %s; waiting for the next bundle: %w", d.Digest,
				p.location.current.Name(bundle.DesiredRepository(p.Trust.Runtime)), err)
	}
	return data, err
}

// LostMessage returns a message about an accepted bundle that could not be restored after a restart, or "" if none was
// lost.
func (p *Puller) LostMessage() string {
	if p.current != nil || p.accepted.Sequence == 0 {
		return ""
	}
	return fmt.Sprintf("bundle %d was accepted, but its stored copy was lost; waiting to read it from the registry",
		p.accepted.Sequence)
}
