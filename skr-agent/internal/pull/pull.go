// Package pull reads a runtime's newest bundle from a registry or folder, verifies it, and stores it with its content
// in the runtime's cluster. If the newest bundle is missing, unreadable or refused, the last accepted bundle stays.
package pull

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/autonomy"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/intake"
)

// Options configure a Puller.
type Options struct {
	// ConfiguredLocation is the configured location for the fleet's registry or folder.
	ConfiguredLocation store.Store
	Registries         *store.Registries
	// Client reads from the API server.
	Client    client.Client
	Namespace string
	Store     *contentstore.Store
	// Trust is the runtime's trust with the pinned root. The Puller sets Trust.Last.
	Trust bundle.Trust
	// Key is the agent's key. It signs the state that the Puller saves. If nil, the Puller does not restore a saved
	// bundle or root of trust.
	Key trust.Signer
	Now func() time.Time
	// Mirrors contains this cluster's mirrors. They override the mirrors in a bundle's settings.
	Mirrors map[string]string
	// AllowsMove is true if the bootstrap Secret allows the runtime to move to another control plane. The Puller then
	// ignores saved state that is older than the enrollment token. If both control planes have the same root of trust,
	// it still refuses older bundles.
	AllowsMove bool
	// If Preview is true, the Puller verifies bundles without writing state.
	Preview bool
}

// Puller contains the last accepted bundle. It is not safe for concurrent use.
type Puller struct {
	Options
	current  *bundle.Bundle
	accepted bundle.Accepted
	refused  []bundle.RefusedBundle
	// manifest is the last accepted bundle's manifest. acceptedRoot is the root of trust that verified it.
	manifest, acceptedRoot []byte
	// reportedSequence is the sequence of the last sent report. savedSequence is the sequence in writtenSecret.
	reportedSequence, savedSequence int64
	// reporter is the instance ID of the agent that sent the last report from this cluster, or empty if it is unknown.
	reporter string
	// lastRootCheck is the last result of verifying the current bundle with the newest root of trust.
	lastRootCheck rootCheck
	// signedState is the signed text of the last saved state. stateSignature is its signature.
	signedState, stateSignature []byte
	// writtenSecret is the Secret with the saved state, as this process last wrote it. It is nil if its content is
	// unknown.
	writtenSecret *corev1.Secret
	location      location
	// openStore opens the store at a location. It is store.Open, except in tests.
	openStore func(string, *store.Registries) (store.Store, error)
}

// StateSecret is the Secret with the state of the last accepted bundle.
const StateSecret = "skr-agent-state"

const (
	stateAccepted = "accepted.json"
	stateManifest = "manifest.json"
	// stateRoot is the key in the Secret for the newest verified root of trust. stateBundleRoot is the key for the root
	// of trust that verified the last accepted bundle.
	stateRoot       = "root.json"
	stateBundleRoot = "bundle-root.json"
	// stateReported is the key in the Secret for the sequence of a sent report, as a decimal number. The sequences of
	// reports that were sent since then are less than maxUnsavedTime higher.
	stateReported = "report-sequence"
	// stateLocation is the key in the Secret for the current location (savedLocation). The Secret does not have this
	// key while the agent uses the configured location.
	stateLocation = "location.json"
	// signatureKey is the key in the Secret for a signature with the agent's key. The signature covers all other fields
	// except stateReported.
	signatureKey = "signature"
)

// ErrNotStored means that the runtime's API server did not store a newer bundle or a newer root of trust.
var ErrNotStored = errors.New("cannot be stored in Secrets in " + v1beta2.RuntimeNamespace)

// New returns a Puller without a bundle. Restore sets the last accepted bundle.
func New(options Options) *Puller {
	return &Puller{
		Options: options, location: location{current: options.ConfiguredLocation, responseTimeout: otherLocationTimeout},
		openStore: store.Open,
	}
}

// Root returns the newest verified root of trust.
func (p *Puller) Root() trust.Root { return p.Trust.Root }

// Current returns the last accepted bundle, or nil before the first bundle.
func (p *Puller) Current() *bundle.Bundle { return p.current }

// RefusedBundles returns the bundles that were refused since the last accepted bundle, newest last.
func (p *Puller) RefusedBundles() []bundle.RefusedBundle { return p.refused }

// IsExpired reports whether the last accepted bundle expired. The agent uses an expired bundle until it accepts a newer
// one.
func (p *Puller) IsExpired() bool {
	return p.current != nil && !p.CurrentTime().Before(p.current.Statement.Predicate.ExpiresAt)
}

// NewestSignedTime returns the newest time in a verified signed statement, or zero before the first bundle.
func (p *Puller) NewestSignedTime() time.Time { return p.accepted.NewestTime }

// CurrentTime returns the current time, or NewestSignedTime if that is later.
func (p *Puller) CurrentTime() time.Time {
	if now := p.Now(); now.After(p.accepted.NewestTime) {
		return now
	}
	return p.accepted.NewestTime
}

// Restore restores the last accepted bundle after a restart or a change of leader. It verifies the bundle again,
// because cluster users can edit Secrets.
//
// Restore returns an error if the saved state is damaged or not signed with the agent's key. Such a state cannot
// replace the pinned root of trust, the bundle or the location. It can only raise the minimum sequences for the next
// bundle and the next report.
func (p *Puller) Restore(ctx context.Context) error {
	secret, err := p.readSecret(ctx)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := p.requireSignature(secret.Data); err != nil {
		return errors.Join(p.restoreReported(secret), p.restoreMinimum(secret.Data), err)
	}
	accepted, err := p.readAccepted(secret.Data)
	if err == nil && p.isReplaced(accepted) {
		p.location.current = p.ConfiguredLocation
		p.restoreAfterMove(secret.Data, accepted)
		return p.restoreReported(secret)
	}
	return errors.Join(
		p.restoreReported(secret), p.restoreLocation(secret.Data), p.restoreBundle(ctx, secret.Data))
}

func (p *Puller) restoreBundle(ctx context.Context, state map[string][]byte) error {
	accepted, err := p.readAccepted(state)
	if err != nil {
		return err
	}
	under, err := p.restoreRoots(state)
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %w", p.Namespace, StateSecret, err)
	}
	if len(state[stateAccepted]) == 0 {
		return nil // no bundle was accepted yet
	}
	p.accepted, p.current = accepted, nil
	if p.manifest = state[stateManifest]; p.manifest == nil {
		return nil // the saved state does not contain the bundle's manifest
	}
	fetched := bundle.Fetched{
		Descriptor: ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest,
			Digest:    p.accepted.Digest,
		}, Bytes: p.manifest,
	}
	// Verify with the root of trust that accepted the bundle. The newest root may not contain the bundle's key anymore.
	verified, err := bundle.Adopt(fetched, p.Trust.Runtime, under)
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %w", p.Namespace, StateSecret, err)
	}
	config, err := p.Store.Load(ctx, verified.Config.Digest)
	if err != nil {
		return fmt.Errorf("restore bundle %s: %w", verified.Digest, err)
	}
	catalog, err := p.Store.Load(ctx, verified.Catalog.Digest)
	if err != nil {
		return fmt.Errorf("restore bundle %s: %w", verified.Digest, err)
	}
	restored, err := verified.Open(config, catalog)
	if err != nil {
		return fmt.Errorf("restore bundle %s: %w", verified.Digest, err)
	}
	restored.Accepted = p.accepted
	p.current = p.withClusterMirrors(restored)
	return p.openAnnounced()
}

// restoreAfterMove restores the newest root of trust and the minimum sequence if the pinned root and the saved root are
// versions of one root of trust. The saved bundle's publisher keys can then still be valid, so a replayed bundle must
// stay refused. The owner comes from the bootstrap Secret.
func (p *Puller) restoreAfterMove(state map[string][]byte, accepted bundle.Accepted) {
	saved, err := trust.ParseRoot(state[stateRoot])
	pinned := p.Trust.Root
	if err != nil || !pinned.IsSuccessor(saved) && !saved.IsSuccessor(pinned) {
		return
	}
	p.Trust.Root, p.accepted = trust.NewestRoot(saved, pinned), accepted
	p.accepted.Kyma, p.accepted.TokenExpires = trust.Kyma{}, 0
}

// isReplaced reports whether an operator moved the runtime to another control plane after the saved bundle was
// accepted. The saved location then belongs to the previous control plane. The same applies to the saved root of trust,
// sequences and times, except if both control planes have the same root of trust (see restoreAfterMove).
func (p *Puller) isReplaced(accepted bundle.Accepted) bool {
	return p.AllowsMove && p.Trust.Assigned.TokenExpires > accepted.TokenExpires
}

// CurrentTrust returns the runtime's current trust, with the newest verified root and the last accepted bundle.
func (p *Puller) CurrentTrust() bundle.Trust {
	trusted := p.Trust
	trusted.Last = p.accepted
	return trusted
}

// pullCurrent reads the current location and accepts a newer bundle. It reports whether the last accepted bundle
// changed.
func (p *Puller) pullCurrent(ctx context.Context) (bool, error) {
	if err := p.followRoot(ctx); err != nil {
		return false, err
	}
	repository, err := p.location.current.Reading(ctx, bundle.DesiredRepository(p.Trust.Runtime))
	if err != nil {
		return false, err
	}
	newest, err := store.Head(ctx, repository, bundle.TagDesired)
	if err != nil {
		return false, err
	}
	if p.current != nil && newest == p.current.Digest {
		p.dropRefusals(false)
		return false, nil
	}
	// Fetch by digest, because the tag can move between two reads.
	fetched, err := store.Fetch(ctx, repository, newest.String())
	var next intake.OpenedBundle
	if err == nil {
		next, err = p.openWithNewestRoot(ctx, repository, fetched)
	}
	if refusal := refusal.Of(err); refusal != nil {
		p.recordRefusal(newest, refusal)
		return false, refusal
	}
	if err != nil {
		return false, err
	}
	if err := p.storeBundle(ctx, next, fetched.Bytes); err != nil {
		return false, err
	}
	p.current = p.withClusterMirrors(next.Bundle)
	p.dropRefusals(false)
	return true, p.openAnnounced()
}

// openWithNewestRoot verifies a bundle with the newest known root of trust. If the bundle is refused but a newer root
// could accept it, openWithNewestRoot reads the roots from the registry and verifies again.
func (p *Puller) openWithNewestRoot(
	ctx context.Context, repository store.Reader, fetched bundle.Fetched,
) (intake.OpenedBundle, error) {
	next, err := p.openBundle(ctx, repository, fetched)
	refusal := refusal.Of(err)
	if refusal == nil || !refusal.Reason.MayPassNewerRoot() {
		return next, err
	}
	before := p.Trust.Root.Version
	if err := p.followRoot(ctx); err != nil {
		return intake.OpenedBundle{}, err
	}
	if p.Trust.Root.Version == before {
		return next, err
	}
	return p.openBundle(ctx, repository, fetched)
}

func (p *Puller) openBundle(
	ctx context.Context, repository store.Reader, fetched bundle.Fetched,
) (intake.OpenedBundle, error) {
	trusted := p.CurrentTrust()
	var err error
	if trusted.Installed, err = p.installedVersions(ctx); err != nil {
		return intake.OpenedBundle{}, err
	}
	return intake.Open(ctx, intake.Source{Documents: repository, ReadProof: p.readProof}, fetched, trusted, p.Now())
}

// installedVersions returns the installed version of each module, from the last accepted bundle and from the Manifests.
func (p *Puller) installedVersions(ctx context.Context) (map[string]string, error) {
	var manifests v1beta2.ManifestList
	err := p.Client.List(ctx, &manifests, client.InNamespace(v1beta2.RuntimeNamespace))
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list Manifests: %w", err)
	}
	return autonomy.MinimumVersions(p.current, manifests.Items), nil
}

// readProof reads a release proof from the content store or, if it is missing there, from the registry.
func (p *Puller) readProof(ctx context.Context, c bundle.Content) ([]byte, error) {
	if there, err := p.Store.Has(ctx, c.Digest); err != nil {
		return nil, err
	} else if there {
		return p.Store.Load(ctx, c.Digest)
	}
	// A root with release keys does not trust the publisher's mirrors, so use only this cluster's mirrors.
	return p.contentReader().Fetch(ctx, c, bundle.Settings{Mirrors: p.Mirrors}, bundle.MaxManifestBytes)
}

func (p *Puller) contentReader() intake.Contents {
	return intake.Contents{Location: p.location.current, Registries: p.Registries}
}

// recordRefusal records a refused bundle or root of trust, unless the last recorded bundle or root is the same. A poll
// can refuse both a root and a bundle.
func (p *Puller) recordRefusal(d digest.Digest, refusal *refusal.Error) {
	for _, last := range slices.Backward(p.refused) {
		if last.Reason.AboutRoot() != refusal.Reason.AboutRoot() {
			continue
		}
		if last.Digest == d && last.Reason == refusal.Reason {
			return
		}
		break
	}
	p.refused = append(
		p.refused,
		bundle.RefusedBundle{
			Digest: d,
			Reason: refusal.Reason,
			Detail: bundle.Bounded(refusal.Detail, bundle.MaxMessageBytes),
			Time:   p.Now().UTC().Truncate(time.Second),
		},
	)
	if len(p.refused) > bundle.MaxRefusedReported {
		p.refused = p.refused[1:]
	}
}

// dropRefusals drops the recorded refusals of bundles. If ofRoots is true, it drops the recorded refusals of roots of
// trust instead.
func (p *Puller) dropRefusals(ofRoots bool) {
	p.refused = slices.DeleteFunc(p.refused, func(r bundle.RefusedBundle) bool {
		return r.Reason.AboutRoot() == ofRoots
	})
}

// storeBundle stores a bundle's documents before its manifest, so that a saved manifest always has its documents, even
// after a crash.
func (p *Puller) storeBundle(ctx context.Context, next intake.OpenedBundle, manifest []byte) error {
	if p.Preview {
		return nil
	}
	for d, document := range next.Documents {
		if p.current != nil && (d == p.current.Config.Digest || d == p.current.Catalog.Digest) {
			continue // the document is already stored for the current bundle
		}
		if err := p.Store.Add(ctx, d, document); err != nil {
			return fmt.Errorf("bundle %s %w: %w", next.Digest, ErrNotStored, err)
		}
	}
	before := *p
	p.accepted, p.manifest, p.acceptedRoot = next.Accepted, manifest, p.Trust.Root.Raw
	if err := p.Save(ctx); err != nil {
		p.accepted, p.manifest, p.acceptedRoot = before.accepted, before.manifest, before.acceptedRoot
		return fmt.Errorf("bundle %s %w: %w", next.Digest, ErrNotStored, err)
	}
	return nil
}

func (p *Puller) storeContent(ctx context.Context, c bundle.Content) error {
	data, err := p.contentReader().Fetch(ctx, c, p.current.State.Settings, bundle.MaxLayerBytes)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("content %s was not found in %s or %s: restore it in the registry, or import it from a file",
			c.Digest, c.Repository, p.location.current.Name(bundle.ContentRepository))
	}
	if err != nil {
		return fmt.Errorf("fetch content from %s: %w", c.Repository, err)
	}
	return p.Store.Add(ctx, c.Digest, data)
}

// NeededDigests returns the digests of all blobs that the last accepted bundle or the given desired state refers to.
// selected is the desired state with the modules that the runtime selected itself.
func (p *Puller) NeededDigests(selected bundle.DesiredState) map[digest.Digest]bool {
	needed := map[digest.Digest]bool{}
	if p.current == nil {
		return needed
	}
	needed[p.current.Config.Digest], needed[p.current.Catalog.Digest] = true, true
	for _, manifest := range slices.Concat(p.current.State.All(), selected.Manifests) {
		for _, c := range manifest.Content {
			needed[c.Digest] = true
		}
	}
	for _, manifest := range slices.Concat(p.current.State.All(), p.current.State.Offers) {
		for _, c := range manifest.Evidence() {
			needed[c.Digest] = true
		}
	}
	return needed
}
