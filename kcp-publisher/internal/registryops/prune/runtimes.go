package prune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// maxChain is the maximum number of bundles that are read in one chain.
const maxChain = 20_000

func (r *reader) runtime(ctx context.Context, id string) (Runtime, error) {
	remembered, kyma := r.Kymas[id]
	runtime := Runtime{ID: id, Kyma: kyma, Gone: slices.Contains(r.Gone, id), Remembered: remembered}
	repository, err := r.Place.Reading(ctx, bundle.DesiredRepository(id))
	h := history{reader: r, repository: repository, runtime: &runtime, verified: map[digest.Digest]bundle.Verified{}}
	if err == nil {
		err = h.read(ctx)
	}
	if err == nil {
		err = readNamed(ctx, repository, &runtime)
	}
	if err != nil {
		return runtime, err
	}
	reports, err := r.Place.Reading(ctx, bundle.ReportRepository(id))
	if err != nil {
		return runtime, err
	}
	switch m, _, err := manifest(ctx, reports, bundle.ReportRepository(id), bundle.TagLatest); {
	case err == nil:
		m.Tags = []string{bundle.TagLatest}
		runtime.Reports = []Manifest{m}
	case !errors.Is(err, store.ErrNotFound):
		return runtime, err
	}
	used, _ := inUse(runtime, r.Rules)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range used {
		r.holders[b.State] = stateHolder{runtime: id, verified: h.verified[b.Descriptor.Digest]}
	}
	return runtime, nil
}

type history struct {
	*reader
	repository store.Reader
	runtime    *Runtime
	verified   map[digest.Digest]bundle.Verified // by digest
}

// readChain reads a bundle and its predecessors, at most MaxChain bundles. The limit is necessary because a user who
// can edit the runtime's Kyma can make the chain arbitrarily long.
func (h *history) readChain(ctx context.Context, reference string) error {
	var tags []string
	if reference == bundle.TagDesired {
		tags = []string{reference}
	}
	next := h.Rules.Now // when the bundle's successor was issued
	for range h.MaxChain {
		fetched, err := store.Fetch(ctx, h.repository, reference)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		verified, err := bundle.Adopt(fetched, h.runtime.ID, h.Root, h.Former...)
		if err == nil && tags == nil && verified.Digest.String() != reference {
			err = fmt.Errorf("bundle %s: the registry returned bundle %s instead", reference, verified.Digest)
		}
		if err != nil && tags == nil && h.Rules.Now.Sub(next) >= h.Rules.MinAge {
			return nil // the chain ends at a bundle that this fleet's keys did not sign
		}
		if err != nil {
			return fmt.Errorf("bundle %s: %w", reference, err)
		}
		predicate := verified.Statement.Predicate
		h.runtime.Bundles = append(h.runtime.Bundles, Bundle{
			Manifest: Manifest{
				Repository: bundle.DesiredRepository(h.runtime.ID), Tags: tags,
				Blobs: []ocispec.Descriptor{verified.Config, verified.Catalog},
				Descriptor: ocispec.Descriptor{
					MediaType: ocispec.MediaTypeImageManifest, Digest: verified.Digest, Size: int64(len(fetched.Bytes)),
				},
			},
			IssuedAt: predicate.IssuedAt, ExpiresAt: predicate.ExpiresAt, State: verified.Config.Digest,
			Catalog: verified.Catalog.Digest,
		})
		h.verified[verified.Digest] = verified
		if predicate.Previous == nil {
			return nil
		}
		reference, tags, next = predicate.Previous.Digest.String(), nil, predicate.IssuedAt
		if _, read := h.verified[predicate.Previous.Digest]; read {
			return nil
		}
	}
	h.runtime.Truncated = h.runtime.Truncated || h.Rules.Now.Sub(next) < h.Rules.MinAge
	return nil
}

// read reads the newest bundle and its predecessors, and then the bundles in the Kyma's status that are not among them.
func (h *history) read(ctx context.Context) error {
	if err := h.readChain(ctx, bundle.TagDesired); err != nil {
		return err
	}
	for _, d := range h.runtime.Remembered {
		if d == "" || slices.ContainsFunc(h.runtime.Bundles, func(b Bundle) bool { return b.Descriptor.Digest == d }) {
			continue
		}
		if err := h.readChain(ctx, d.String()); err != nil {
			return err
		}
	}
	return nil
}

// referrersTag is the tag for a manifest's referrers in registries without the referrers API.
//
// Source: OCI distribution-spec 1.1, "Referrers Tag Schema".
var referrersTag = regexp.MustCompile(`^sha256-([0-9a-f]{64})$`)

// readNamed adds to runtime.Named the manifests whose tags this package does not know. If such a manifest lists a
// bundle's referrers, readNamed also adds the bundle.
func readNamed(ctx context.Context, repository store.Reader, runtime *Runtime) error {
	tags, err := store.Tags(ctx, repository)
	if err != nil {
		return err
	}
	for _, tag := range tags {
		if tag == bundle.TagDesired {
			continue
		}
		m, _, err := manifest(ctx, repository, bundle.DesiredRepository(runtime.ID), tag)
		if err != nil {
			return fmt.Errorf("tag %s: %w", tag, err)
		}
		runtime.Named = append(runtime.Named, m.Descriptor.Digest)
		if subject := referrersTag.FindStringSubmatch(tag); subject != nil {
			runtime.Named = append(runtime.Named, digest.NewDigestFromEncoded(digest.SHA256, subject[1]))
		}
	}
	return nil
}

// contents reads the desired states in the bundles that are in use, and adds the digests of the content that they need
// to the inventory.
func (r *reader) contents(ctx context.Context) error {
	states := map[string]digest.Digest{}
	for state := range r.holders {
		states[state.String()] = state
	}
	return forEach(ctx, slices.Sorted(maps.Keys(states)), func(ctx context.Context, name string) error {
		state := states[name]
		r.mu.Lock()
		of := r.holders[state]
		r.mu.Unlock()
		repository, err := r.Place.Reading(ctx, bundle.DesiredRepository(of.runtime))
		var opened bundle.Bundle
		if err == nil {
			opened, err = store.FetchBundle(ctx, repository, of.verified)
		}
		if store.IsUnavailable(err) {
			return err
		}
		if err != nil {
			r.addUnknown("desired state %s of runtime %s: %v", state, of.runtime, err)
			return nil
		}
		var needs []digest.Digest
		for _, m := range slices.Concat(opened.State.All(), opened.State.Offers) {
			for _, c := range slices.Concat(m.Content, m.Release) {
				needs = append(needs, c.Digest)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inventory.Contents[state] = needs
		return nil
	})
}
