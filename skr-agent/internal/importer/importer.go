// Package importer imports exported files into a registry or folder. It verifies the complete file before it writes
// anything to the target.
//
// The pinned root of trust verifies bundles, digests in bundles verify module content, and a signed list verifies
// images. The import writes a bundle after its content, so an interrupted import keeps the previous bundle.
package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/intake"
)

// Importer imports files.
type Importer struct {
	Target store.Store
	// Root is the pinned root of trust. If unset, Import pins the root of the first import.
	Root trust.Root
	Now  func() time.Time
	// ClockSkew is the tolerance for bundles that were issued after Now. The default is bundle.MaxClockSkew.
	ClockSkew time.Duration
	// OnProgress is called with the number of processed bytes. It can be nil.
	OnProgress func(int64)
}

// Outcome is the result of importing one file.
type Outcome struct {
	Bundles []ImportedBundle `json:"bundles"`
	Images  []string         `json:"images"`
	// SkippedImages contains the images whose tags the import did not change, because a file with a newer list of
	// images was imported before.
	SkippedImages []string `json:"kept,omitempty"`
	// Mirrors contains the values of the flag --mirror for runtimes that pull the imported images.
	Mirrors []string `json:"mirrors"`
	// PinnedRoot is the digest of the root of trust that this import pinned because no root was configured. An operator
	// must compare it with the fleet's root. It is also set if the import failed after it pinned the root, because the
	// next import does not pin a root.
	PinnedRoot digest.Digest `json:"trustedAtFirst,omitempty"`
	// WrittenCount is the number of blobs and manifests that the import wrote. ExistingCount is the number that already
	// existed at the target.
	WrittenCount  int `json:"written"`
	ExistingCount int `json:"known"`
}

// ImportedBundle is an imported bundle.
type ImportedBundle struct {
	Runtime  string        `json:"runtime"`
	Sequence int64         `json:"sequence"`
	Digest   digest.Digest `json:"digest"`
	// PreviousSequence is the sequence of the replaced bundle. It is 0 if no bundle was replaced.
	PreviousSequence int64 `json:"before"`
}

// Import imports one file, which can consist of several volumes. If the error is a *refusal.Error, Import did not write
// anything. After any other error, another call continues the import, and the outcome contains the completed part.
func (i Importer) Import(ctx context.Context, paths []string) (Outcome, error) {
	if i.OnProgress == nil {
		i.OnProgress = func(int64) {}
	}
	file, err := airgap.Open(paths, i.OnProgress)
	if err != nil {
		return Outcome{}, err
	}
	defer file.Close()
	pinsRoot := false
	if i.Root.Version == 0 {
		if i.Root, pinsRoot, err = i.choosePinnedRoot(ctx, file); err != nil {
			return Outcome{}, err
		}
	}
	accepted, err := i.verify(ctx, file)
	if err != nil {
		return Outcome{}, err
	}
	return i.write(ctx, file, accepted, pinsRoot)
}

// verifiedContent is the verified content in a file to import.
type verifiedContent struct {
	bundles []verifiedBundle
	roots   []int64
	images  []bundle.CarriedImage
	list    *airgap.Reference
	// listPredicate is the predicate of the signed image list. keptImages contains the images whose tag must not
	// change, because a newer list, which was imported for another runtime, contains them.
	listPredicate bundle.CarriedPredicate
	keptImages    map[string]bool
	// contents are the module content blobs in the file.
	contents []ocispec.Descriptor
	// imageBlobs contains the blobs for each image in the file. Each blob comes before the manifests that refer to it.
	imageBlobs map[string][]ocispec.Descriptor
}

type verifiedBundle struct {
	bundle.Bundle
	previousSequence int64
	manifest         ocispec.Descriptor
}

func (i Importer) verify(ctx context.Context, file *airgap.File) (verifiedContent, error) {
	var found verifiedContent
	root, err := i.followRoot(ctx, file, &found)
	if err != nil {
		return found, err
	}
	var missing missingBlobs
	for _, r := range file.References() {
		repository, tag, ok := strings.Cut(r.Name, ":")
		runtime, isRuntime := strings.CutPrefix(repository, bundle.DesiredRepository(""))
		switch {
		case ok && isRuntime && tag == bundle.TagDesired:
			b, err := i.verifyBundle(ctx, file, root, runtime, r.Descriptor, &missing)
			if err != nil {
				return found, fmt.Errorf("bundle of runtime %s: %w", runtime, err)
			}
			found.bundles = append(found.bundles, b)
		case ok && repository == bundle.CarriedRepository:
			if found.list != nil {
				return found, refuseMalformed("the file has more than one list of images")
			}
			found.list = &r
		case ok &&
			(repository == bundle.TrustRepository || repository == bundle.ContentRepository ||
				strings.HasPrefix(repository, bundle.ImageRepository(""))):
		default:
			return found, refuseMalformed("the file has an unexpected reference %q", r.Name)
		}
	}
	if len(found.bundles) == 0 {
		return found, refuseMalformed("the file has no bundle")
	}
	for _, b := range found.bundles {
		if err := i.checkContents(ctx, file, b, &found, &missing); err != nil {
			return found, err
		}
	}
	if err := i.verifyImages(ctx, file, root, &found, &missing); err != nil {
		return found, err
	}
	return found, missing.asError()
}

func refuseMalformed(format string, args ...any) *refusal.Error {
	return &refusal.Error{Reason: refusal.Malformed, Detail: fmt.Sprintf(format, args...)}
}

// followRoot returns the newest root of trust that can be verified from the pinned root. It uses the root versions at
// the target and in the file.
func (i Importer) followRoot(ctx context.Context, file *airgap.File, found *verifiedContent) (trust.Root, error) {
	root := i.Root
	carried := file.Repository(bundle.TrustRepository)
	if data, _, err := store.ReadRoot(ctx, carried, root.Version); err == nil && bytes.Equal(data, root.Raw) {
		found.roots = append(found.roots, root.Version)
	}
	newest, refused, _, err := store.FollowRootFrom(
		ctx,
		func(ctx context.Context, version int64) ([]byte, digest.Digest, error) {
			data, at, err := store.FetchRoot(ctx, i.Target, version)
			if !i.isAbsent(err) {
				return data, at, err
			}
			data, at, err = store.ReadRoot(ctx, carried, version)
			if err == nil {
				found.roots = append(found.roots, version)
			}
			return data, at, err
		},
		root,
	)
	if refused != nil {
		return newest, fmt.Errorf("root of trust version %d: %w", newest.Version+1, refused)
	}
	return newest, err
}

// isAbsent reports whether err means that an object or its folder does not exist at the target.
func (i Importer) isAbsent(err error) bool {
	return errors.Is(err, store.ErrNotFound) || store.IsLayout(i.Target) && isNotExist(err)
}

// verifyBundle verifies a runtime's bundle. It refuses a bundle that is not newer than the bundle at the target.
func (i Importer) verifyBundle(
	ctx context.Context, file *airgap.File, root trust.Root, runtime string, d ocispec.Descriptor, missing *missingBlobs,
) (verifiedBundle, error) {
	if err := trust.CheckRuntimeID(runtime); err != nil {
		return verifiedBundle{}, refuseMalformed("%v", err)
	}
	trusted := bundle.Trust{Root: root, Runtime: runtime, ClockSkew: i.ClockSkew}
	target, err := i.openRepository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return verifiedBundle{}, err
	}
	last, err := i.lastBundle(ctx, target, root, runtime)
	if err != nil {
		return verifiedBundle{}, err
	}
	trusted.Last = last
	carried := file.Repository(bundle.DesiredRepository(runtime))
	fetched, err := store.Fetch(ctx, carried, bundle.TagDesired)
	if err != nil {
		return verifiedBundle{}, err
	}
	opened, err := intake.Open(ctx, i.newSource(file, carried, target), fetched, trusted, i.Now())
	var absent *intake.MissingError
	if errors.As(err, &absent) {
		for _, m := range absent.Missing {
			missing.add(runtime, m.Name, m.Descriptor, absent.Statement.Predicate.Previous, last)
		}
		return verifiedBundle{}, missing.asError()
	}
	return verifiedBundle{opened.Bundle, last.Sequence, d}, err
}

// newSource returns a source for a bundle's documents. The source reads a document from the file, or from the target if
// the file does not contain it.
func (i Importer) newSource(file *airgap.File, carried, target store.Reader) intake.Source {
	return intake.Source{
		Documents: store.FetcherFunc(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
			if _, inFile := file.Size(d.Digest); inFile || target == nil {
				return carried.Fetch(ctx, d)
			}
			return target.Fetch(ctx, d)
		}),
		ReadProof: func(ctx context.Context, c bundle.Content) ([]byte, error) {
			from := carried
			if _, inFile := file.Size(c.Digest); !inFile {
				there, err := i.openRepository(ctx, bundle.ContentRepository)
				if err != nil {
					return nil, err
				}
				if there != nil {
					from = there
				}
			}
			return store.FetchBlob(ctx, from, c.Descriptor(), bundle.MaxManifestBytes)
		},
	}
}

// lastBundle returns the runtime's bundle at the target. It ignores a bundle that was not signed by this fleet's
// publisher.
func (i Importer) lastBundle(
	ctx context.Context, target store.Reader, root trust.Root, runtime string,
) (bundle.Accepted, error) {
	if target == nil {
		return bundle.Accepted{}, nil
	}
	fetched, err := store.Fetch(ctx, target, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return bundle.Accepted{}, nil
	}
	if err != nil {
		return bundle.Accepted{}, fmt.Errorf("read the bundle in %s: %w", i.Target, err)
	}
	verified, err := bundle.Adopt(fetched, runtime, root, i.Root)
	if err != nil {
		return bundle.Accepted{}, nil //nolint:nilerr // not signed by this fleet's publisher
	}
	return verified.Accepted, nil
}

// wantedBlob is a module content blob that a bundle refers to. If isRequired is true, the import fails without the
// blob.
type wantedBlob struct {
	content    bundle.Content
	name       string
	isRequired bool
}

func (b verifiedBundle) wantedBlobs() []wantedBlob {
	var wants []wantedBlob
	add := func(m bundle.Manifest, contents []bundle.Content, needed bool) {
		for _, c := range contents {
			wants = append(wants, wantedBlob{c, fmt.Sprintf("%s of module %s %s", c.Name, m.Module, m.Version), needed})
		}
	}
	for _, m := range b.State.All() {
		add(m, m.Content, true)
		add(m, m.Evidence(), true)
	}
	// Agents verify the release proofs for all offers. An export can omit the offers' content.
	for _, m := range b.State.Offers {
		add(m, m.Content, false)
		add(m, m.Evidence(), true)
	}
	return wants
}

// checkContents checks that a bundle's required content is in the file or at the target.
func (i Importer) checkContents(
	ctx context.Context, file *airgap.File, b verifiedBundle, found *verifiedContent, missing *missingBlobs,
) error {
	target, err := i.openRepository(ctx, bundle.ContentRepository)
	if err != nil {
		return err
	}
	for _, w := range b.wantedBlobs() {
		d := ocispec.Descriptor{MediaType: w.content.MediaType, Digest: w.content.Digest, Size: w.content.SizeBytes}
		size, carried := file.Size(d.Digest)
		if carried && size != d.Size {
			return &refusal.Error{
				Reason: refusal.WrongDigest,
				Detail: fmt.Sprintf("%s: %s is %d bytes, but the bundle specifies %d", w.name, d.Digest, size, d.Size),
			}
		}
		if carried {
			found.contents = append(found.contents, d)
			continue
		}
		if !w.isRequired {
			continue
		}
		there, err := exists(ctx, target, d)
		if err != nil {
			return fmt.Errorf("check for content in %s: %w", i.Target, err)
		}
		if !there {
			missing.add(b.Statement.Predicate.Audience.Runtime, w.name, d, b.Statement.Predicate.Previous, b.asAccepted())
		}
	}
	return nil
}

func (b verifiedBundle) asAccepted() bundle.Accepted {
	return bundle.Accepted{Sequence: b.previousSequence}
}

// openRepository opens a repository at the target. It returns nil if the target does not exist yet.
func (i Importer) openRepository(ctx context.Context, name string) (store.Reader, error) {
	target, err := i.Target.Reading(ctx, name)
	if err != nil && store.IsLayout(i.Target) && isNotExist(err) {
		return nil, nil
	}
	return target, err
}

func exists(ctx context.Context, target store.Reader, d ocispec.Descriptor) (bool, error) {
	if target == nil {
		return false, nil
	}
	return target.Exists(ctx, d)
}
