// Package intake decides whether a runtime accepts a bundle. Its input is the bundle's manifest, the source of the
// bundle's documents, the runtime's trust and the time. Its output is the complete bundle, or a *refusal.Error with the
// failed check.
//
// The agent and the commands `verify` and `import` call the function Open, so they accept the same bundles. The package
// has no state and does not write.
package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// Source reads a bundle's documents.
type Source struct {
	// Documents reads the desired state and the catalog.
	Documents store.Fetcher
	// ReadProof reads a module's release proof. Open calls it only if the root of trust has release keys.
	ReadProof func(context.Context, bundle.Content) ([]byte, error)
}

// OpenedBundle is an accepted bundle.
type OpenedBundle struct {
	bundle.Bundle
	// Documents contains the verified documents: the desired state, the catalog and the release proofs.
	Documents map[digest.Digest][]byte
}

// MissingError means that the source does not have all of a bundle's documents.
type MissingError struct {
	// Statement is the bundle's verified signed statement.
	Statement bundle.Statement
	Missing   []MissingDocument
	cause     error
}

// MissingDocument describes a bundle document that the source does not have.
type MissingDocument struct {
	Name       string
	Descriptor ocispec.Descriptor
}

func (e *MissingError) Error() string { return e.cause.Error() }

// Unwrap returns the first missing document's error.
func (e *MissingError) Unwrap() error { return e.cause }

// Open verifies a bundle: the signed statement, the desired state, the catalog, and each module's release proof. It
// also verifies that no module is downgraded without a signed rollback.
//
// Open authenticates all data before it parses the data, and stops at the first failed check. The error is a
// *refusal.Error, a *MissingError, or another error from the source.
func Open(
	ctx context.Context, source Source, fetched bundle.Fetched, trusted bundle.Trust, now time.Time,
) (OpenedBundle, error) {
	verified, err := bundle.Verify(fetched, trusted, now)
	if err != nil {
		return OpenedBundle{}, err
	}
	reading := reader{statement: verified.Statement, documents: map[digest.Digest][]byte{}}
	for _, d := range []ocispec.Descriptor{verified.Config, verified.Catalog} {
		read := func() ([]byte, error) { return store.FetchBlob(ctx, source.Documents, d, bundle.MaxDocumentBytes) }
		if err := reading.readDocument(d, "bundle document", read); err != nil {
			return OpenedBundle{}, fmt.Errorf("documents of the bundle: %w", err)
		}
	}
	if err := reading.missingError(); err != nil {
		return OpenedBundle{}, err
	}
	opened, err := verified.Open(reading.documents[verified.Config.Digest], reading.documents[verified.Catalog.Digest])
	if err != nil {
		return OpenedBundle{}, err
	}
	if err := trusted.CheckVersions(opened); err != nil {
		return OpenedBundle{}, err
	}
	if err := reading.readProofs(ctx, source, trusted.Root, opened.State); err != nil {
		return OpenedBundle{}, err
	}
	if err := bundle.CheckReleases(trusted.Root, opened.State, reading.documents, render.DefaultCR,
		verificationTime(now, trusted.Last)); err != nil {
		return OpenedBundle{}, refusal.New(refusal.NotReleased, "%w", err)
	}
	return OpenedBundle{opened, reading.documents}, nil
}

// CheckReleases verifies the release proofs for all installed and offered modules in an accepted bundle. root can be a
// different root of trust than the one that verified the bundle. readProof reads a proof. refused is the
// reason if the root refuses a module, and err is an error from readProof.
func CheckReleases(
	ctx context.Context, readProof func(context.Context, bundle.Content) ([]byte, error), root trust.Root,
	state bundle.DesiredState, now time.Time,
) (refused, err error) {
	reading := reader{documents: map[digest.Digest][]byte{}}
	if err := reading.readProofs(ctx, Source{ReadProof: readProof}, root, state); err != nil {
		return nil, err
	}
	return bundle.CheckReleases(root, state, reading.documents, render.DefaultCR, now), nil
}

// verificationTime returns the current time. If the newest verified signature has a later time, the local clock is
// behind, and the result is the signature's time.
func verificationTime(now time.Time, last bundle.Accepted) time.Time {
	if last.NewestTime.After(now) {
		return last.NewestTime
	}
	return now
}

type reader struct {
	statement        bundle.Statement
	documents        map[digest.Digest][]byte
	missingDocuments []MissingDocument
	cause            error // first missing document's error
}

// readDocument calls the function read for a document of the bundle. If the document is missing, readDocument records
// it and returns nil. It returns all other errors.
func (r *reader) readDocument(d ocispec.Descriptor, name string, read func() ([]byte, error)) error {
	if r.documents[d.Digest] != nil ||
		slices.ContainsFunc(r.missingDocuments, func(m MissingDocument) bool { return m.Descriptor.Digest == d.Digest }) {
		return nil
	}
	data, err := read()
	if errors.Is(err, store.ErrNotFound) {
		if r.cause == nil {
			r.cause = fmt.Errorf("%s: %w", name, err)
		}
		r.missingDocuments = append(r.missingDocuments, MissingDocument{name, d})
		return nil
	}
	if err == nil {
		r.documents[d.Digest] = data
	}
	return err
}

func (r *reader) missingError() error {
	if len(r.missingDocuments) == 0 {
		return nil
	}
	return &MissingError{r.statement, r.missingDocuments, r.cause}
}

// readProofs reads the modules' release proofs if the root of trust has release keys.
func (r *reader) readProofs(ctx context.Context, source Source, root trust.Root, state bundle.DesiredState) error {
	if !root.HasReleaseKeys() {
		return nil
	}
	for _, m := range slices.Concat(state.All(), state.Offers) {
		for _, c := range m.Evidence() {
			d := c.Descriptor()
			what := fmt.Sprintf("%s of module %s %s", c.Name, m.Module, m.Version)
			if err := r.readDocument(d, what, func() ([]byte, error) { return source.ReadProof(ctx, c) }); err != nil {
				return fmt.Errorf("module %s: release proof: %w", m.Module, err)
			}
		}
	}
	return r.missingError()
}
