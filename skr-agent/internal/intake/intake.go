// Package intake decides whether a runtime may follow a bundle. The bundle's manifest, what the runtime trusts and the
// time go in, with where the manifest's documents are read; the whole bundle comes out, or a *refusal.Error that names
// the check which failed.
//
// The agent, verify, import and the import folder all judge by Open, so that none accepts what another refuses. It
// writes nothing, and remembers nothing.
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
)

// Source is where the documents that a bundle names are read.
type Source struct {
	// Documents has the desired state and the catalog.
	Documents store.Fetcher
	// Proof reads what proves a module's release. It is asked only when the root of trust has release keys.
	Proof func(context.Context, bundle.Content) ([]byte, error)
}

// Opened is a bundle that may be followed.
type Opened struct {
	bundle.Bundle
	// Documents are those that it was judged by: the desired state, the catalog and the proofs.
	Documents map[digest.Digest][]byte
}

// MissingError says that documents which a bundle names are not there. It unwraps to the source's own error.
type MissingError struct {
	// Statement is the bundle's, which is authentic.
	Statement bundle.Statement
	Missing   []Missing
	cause     error
}

// Missing is a document that is not there.
type Missing struct {
	What       string
	Descriptor ocispec.Descriptor
}

func (e *MissingError) Error() string { return e.cause.Error() }

// Unwrap returns why the first of the documents could not be read.
func (e *MissingError) Unwrap() error { return e.cause }

// Open judges a bundle: its statement, its two documents, that no module goes below what is installed unless that was
// said, and that everything which it installs or offers was released.
//
// The checks stop at the first that fails, so that nothing is parsed before it is authenticated. A *MissingError names
// all documents of the same kind that are not there; any other error that is no *refusal.Error means that the source
// could not be read.
func Open(ctx context.Context, source Source, fetched bundle.Fetched, trusted bundle.Trust, now time.Time) (Opened, error) {
	verified, err := bundle.Verify(fetched, trusted, now)
	if err != nil {
		return Opened{}, err
	}
	reading := reader{statement: verified.Statement, documents: map[digest.Digest][]byte{}}
	for _, d := range []ocispec.Descriptor{verified.Config, verified.Catalog} {
		read := func() ([]byte, error) { return store.FetchBlob(ctx, source.Documents, d, bundle.MaxDocumentBytes) }
		if err := reading.read(d, "a document of its bundle", read); err != nil {
			return Opened{}, fmt.Errorf("documents of the bundle: %w", err)
		}
	}
	if err := reading.missing(); err != nil {
		return Opened{}, err
	}
	opened, err := verified.Open(reading.documents[verified.Config.Digest], reading.documents[verified.Catalog.Digest])
	if err != nil {
		return Opened{}, err
	}
	if err := trusted.CheckVersions(opened); err != nil {
		return Opened{}, err
	}
	if err := reading.proofs(ctx, source, trusted.Root, opened.State); err != nil {
		return Opened{}, err
	}
	if err := bundle.CheckReleases(trusted.Root, opened.State, reading.documents, clock(now, trusted.Last)); err != nil {
		return Opened{}, refusal.New(refusal.NotReleased, "%w", err)
	}
	return Opened{opened, reading.documents}, nil
}

// clock returns the time, never behind the newest that somebody trusted signed.
func clock(now time.Time, last bundle.Accepted) time.Time {
	if last.NewestTime.After(now) {
		return last.NewestTime
	}
	return now
}

// reader reads the documents of one bundle.
type reader struct {
	statement bundle.Statement
	documents map[digest.Digest][]byte
	absent    []Missing
	cause     error // why the first of absent was not read
}

// read keeps a document, or that it is not there. The error is any other.
func (r *reader) read(d ocispec.Descriptor, what string, read func() ([]byte, error)) error {
	if r.documents[d.Digest] != nil || slices.ContainsFunc(r.absent, func(m Missing) bool { return m.Descriptor.Digest == d.Digest }) {
		return nil
	}
	data, err := read()
	if errors.Is(err, store.ErrNotFound) {
		if r.cause == nil {
			r.cause = fmt.Errorf("%s: %w", what, err)
		}
		r.absent = append(r.absent, Missing{what, d})
		return nil
	}
	if err == nil {
		r.documents[d.Digest] = data
	}
	return err
}

func (r *reader) missing() error {
	if len(r.absent) == 0 {
		return nil
	}
	return &MissingError{r.statement, r.absent, r.cause}
}

// proofs reads what proves the releases of all modules that a state installs or offers, if the root asks for it.
func (r *reader) proofs(ctx context.Context, source Source, root trust.Root, state bundle.DesiredState) error {
	if !root.Locked() {
		return nil
	}
	for _, m := range slices.Concat(state.All(), state.Offers) {
		for _, c := range m.Release {
			d := c.Descriptor()
			what := fmt.Sprintf("%s of module %s %s", c.Name, m.Module, m.Version)
			if err := r.read(d, what, func() ([]byte, error) { return source.Proof(ctx, c) }); err != nil {
				return fmt.Errorf("module %s: proof of its release: %w", m.Module, err)
			}
		}
	}
	return r.missing()
}
