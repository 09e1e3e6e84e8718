// Package pull gets a runtime's bundle: a registry or folder goes in, the newest bundle that may be followed comes out,
// and it is kept in the runtime's own cluster together with the content it needs.
//
// What is absent, unreadable or refused changes nothing: the last accepted bundle stays in force.
package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
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

// Options are what a Puller needs.
type Options struct {
	Place      store.Store
	Registries *store.Registries
	// Client does not cache.
	Client    client.Client
	Namespace string
	Store     *contentstore.Store
	// Trust is what the runtime knows before it looks at a bundle: its Root is the pinned one, its Last is the Puller's
	// own.
	Trust bundle.Trust
	Now   func() time.Time
	// Mirrors are where this cluster reads registries from, by its operator; they win over those of a bundle's settings.
	Mirrors map[string]string
	// Preview has the Puller judge as ever and write nothing: what it follows is forgotten with it.
	Preview bool
}

// Puller holds the bundle in force. It is used by one goroutine.
type Puller struct {
	Options
	current  *bundle.Bundle
	accepted bundle.Accepted
	refused  []bundle.RefusedBundle
	// manifest and acceptedUnder are the bundle in force as it lay there and the root that it was accepted under.
	manifest, acceptedUnder []byte
	// reported is the sequence of the last report that was delivered.
	reported int64
}

// StateSecret is the Secret that the bundle in force is remembered in.
const StateSecret = "skr-agent-state"

const (
	stateAccepted = "accepted.json"
	stateManifest = "manifest.json"
	// stateRoot is the newest root that was followed, stateBundleRoot the one that the bundle in force was accepted under.
	stateRoot       = "root.json"
	stateBundleRoot = "bundle-root.json"
	// stateReported is the sequence of the last report that was delivered, in decimal.
	stateReported = "report-sequence"
)

// ErrNotKept says that the runtime's API server did not take what has to be kept of a newer bundle or root, whatever
// the registry has.
var ErrNotKept = errors.New("cannot be kept in Secrets of " + v1beta2.RuntimeNamespace)

// New returns a Puller without a bundle in force; see Restore.
func New(options Options) *Puller { return &Puller{Options: options} }

// Root is the root of trust that is followed.
func (p *Puller) Root() trust.Root { return p.Trust.Root }

// Current is the bundle in force, nil before the first.
func (p *Puller) Current() *bundle.Bundle { return p.current }

// Refused are the bundles refused since the last one accepted, newest last.
func (p *Puller) Refused() []bundle.RefusedBundle { return p.refused }

// Expired says that the time of the bundle in force is over: it stays in force, but nothing newer came.
func (p *Puller) Expired() bool {
	return p.current != nil && !p.Clock().Before(p.current.Statement.Predicate.ExpiresAt)
}

// NewestTime is the newest that somebody trusted signed, zero before the first bundle.
func (p *Puller) NewestTime() time.Time { return p.accepted.NewestTime }

// Clock is the time, never behind the newest that somebody trusted signed.
func (p *Puller) Clock() time.Time {
	if now := p.Now(); now.After(p.accepted.NewestTime) {
		return now
	}
	return p.accepted.NewestTime
}

// Restore takes up the bundle that was in force before a restart, or that another agent accepted while this one stood
// by. What was kept is checked against the root again, for the cluster's Secrets are not the publisher. State that is
// lost or damaged is said and started over, never guessed.
func (p *Puller) Restore(ctx context.Context) error {
	secret, err := p.saved(ctx)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return errors.Join(p.restoreReported(secret.Data), p.restoreBundle(ctx, secret.Data))
}

func (p *Puller) restoreBundle(ctx context.Context, state map[string][]byte) error {
	under, err := p.restoreRoots(state)
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %w", p.Namespace, StateSecret, err)
	}
	if len(state[stateAccepted]) == 0 {
		return nil // a newer root was followed or a report delivered, and no bundle was accepted yet
	}
	var accepted bundle.Accepted
	if err := json.Unmarshal(state[stateAccepted], &accepted); err != nil {
		return fmt.Errorf("read Secret %s/%s: %s: %w", p.Namespace, StateSecret, stateAccepted, err)
	}
	p.accepted, p.current = accepted, nil
	p.manifest = state[stateManifest]
	fetched := bundle.Fetched{
		Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: p.accepted.Digest}, Bytes: p.manifest,
	}
	// By the root of that time: what is in force stays in force when its key is taken out of use.
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
	p.current = p.here(restored)
	return nil
}

// Pull looks for a newer bundle and takes it into force when it may be followed. It reports whether there is another
// bundle in force than before. The error is a *bundle.Refusal, or says that the registry could not be read; both leave
// what is in force.
func (p *Puller) Pull(ctx context.Context) (bool, error) {
	if err := p.followRoot(ctx); err != nil {
		return false, err
	}
	repository, err := p.Place.Reading(ctx, bundle.DesiredRepository(p.Trust.Runtime))
	if err != nil {
		return false, err
	}
	newest, err := store.Head(ctx, repository, bundle.TagDesired)
	if err != nil {
		return false, err
	}
	if p.current != nil && newest == p.current.Digest {
		p.forgetRefusals(false)
		return false, nil
	}
	// From here on the digest names the bundle: a tag that is moved between two reads moves nothing.
	fetched, err := store.Fetch(ctx, repository, newest.String())
	var next intake.Opened
	if err == nil {
		next, err = p.judgeByNewest(ctx, repository, fetched)
	}
	if refusal := refusal.Of(err); refusal != nil {
		p.noteRefusal(newest, refusal)
		return false, refusal
	}
	if err != nil {
		return false, err
	}
	if err := p.keep(ctx, next, fetched.Bytes); err != nil {
		return false, err
	}
	p.current = p.here(next.Bundle)
	p.forgetRefusals(false)
	return true, nil
}

// judgeByNewest judges by the newest root. One that came after the root was looked for and before the bundle is looked
// for again: keys that change are no attack.
func (p *Puller) judgeByNewest(ctx context.Context, repository store.Reader, fetched bundle.Fetched) (intake.Opened, error) {
	next, err := p.judge(ctx, repository, fetched)
	refusal := refusal.Of(err)
	if refusal == nil || !refusal.Reason.MayFollowFromRoot() {
		return next, err
	}
	before := p.Trust.Root.Version
	if err := p.followRoot(ctx); err != nil {
		return intake.Opened{}, err
	}
	if p.Trust.Root.Version == before {
		return next, err
	}
	return p.judge(ctx, repository, fetched)
}

func (p *Puller) judge(ctx context.Context, repository store.Reader, fetched bundle.Fetched) (intake.Opened, error) {
	trusted := p.Trust
	trusted.Last = p.accepted
	var err error
	if trusted.Installed, err = p.installed(ctx); err != nil {
		return intake.Opened{}, err
	}
	return intake.Open(ctx, intake.Source{Documents: repository, Proof: p.proof}, fetched, trusted, p.Now())
}

// installed returns the versions that the runtime has, by module: those of the bundle in force, those that were chosen
// from its offers, and those of Manifests that it does not have, which are there when the agent lost its state.
func (p *Puller) installed(ctx context.Context) (map[string]string, error) {
	var manifests v1beta2.ManifestList
	err := p.Client.List(ctx, &manifests, client.InNamespace(v1beta2.RuntimeNamespace))
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list Manifests: %w", err)
	}
	return autonomy.Versions(p.current, manifests.Items), nil
}

// proof reads what proves a release, from the cluster where it is kept there.
func (p *Puller) proof(ctx context.Context, c bundle.Content) ([]byte, error) {
	if there, err := p.Store.Has(ctx, c.Digest); err != nil {
		return nil, err
	} else if there {
		return p.Store.Load(ctx, c.Digest)
	}
	// Mirrors are not taken from a publisher where there is a second lock.
	return p.contents().Fetch(ctx, c, bundle.Settings{Mirrors: p.Mirrors}, bundle.MaxManifestBytes)
}

func (p *Puller) contents() intake.Contents {
	return intake.Contents{Place: p.Place, Registries: p.Registries}
}

func (p *Puller) noteRefusal(d digest.Digest, refusal *refusal.Error) {
	if n := len(p.refused); n > 0 && p.refused[n-1].Digest == d && p.refused[n-1].Reason == refusal.Reason {
		return
	}
	p.refused = append(p.refused, bundle.RefusedBundle{Digest: d, Reason: refusal.Reason, Detail: bundle.Bounded(refusal.Detail, bundle.MaxMessageBytes), Time: p.Now().UTC().Truncate(time.Second)})
	if len(p.refused) > bundle.MaxRefusedReported {
		p.refused = p.refused[1:]
	}
}

// forgetRefusals drops those of bundles or of roots, when the one in question is over.
func (p *Puller) forgetRefusals(ofRoots bool) {
	p.refused = slices.DeleteFunc(p.refused, func(r bundle.RefusedBundle) bool { return r.Reason.AboutRoot() == ofRoots })
}

// keep stores the documents and then the statement: a crash in between leaves the bundle before in force, whole.
func (p *Puller) keep(ctx context.Context, next intake.Opened, manifest []byte) error {
	if p.Preview {
		return nil
	}
	for d, document := range next.Documents {
		if err := p.Store.Put(ctx, d, document); err != nil {
			return fmt.Errorf("bundle %s %w: %w", next.Digest, ErrNotKept, err)
		}
	}
	before := *p
	p.accepted, p.manifest, p.acceptedUnder = next.Accepted, manifest, p.Trust.Root.Raw
	if err := p.Save(ctx); err != nil {
		p.accepted, p.manifest, p.acceptedUnder = before.accepted, before.manifest, before.acceptedUnder
		return fmt.Errorf("bundle %s %w: %w", next.Digest, ErrNotKept, err)
	}
	return nil
}

// stage stores a content that is not there.
func (p *Puller) stage(ctx context.Context, c bundle.Content) error {
	data, err := p.contents().Fetch(ctx, c, p.current.State.Settings, bundle.MaxLayerBytes)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("content %s is neither in %s nor in %s: ask who runs that registry, or carry it here", c.Digest, c.Repository, p.Place.Name(bundle.ContentRepository))
	}
	if err != nil {
		return fmt.Errorf("content of %s: %w", c.Repository, err)
	}
	return p.Store.Add(ctx, c.Digest, data)
}

// Needed are the digests of everything that the bundle in force needs, and what was chosen from its offers.
func (p *Puller) Needed(chosen bundle.DesiredState) map[digest.Digest]bool {
	needed := map[digest.Digest]bool{}
	if p.current == nil {
		return needed
	}
	needed[p.current.Config.Digest], needed[p.current.Catalog.Digest] = true, true
	for _, manifest := range slices.Concat(p.current.State.All(), chosen.Manifests) {
		for _, c := range manifest.Content {
			needed[c.Digest] = true
		}
	}
	for _, manifest := range slices.Concat(p.current.State.All(), p.current.State.Offers) {
		for _, c := range manifest.Release {
			needed[c.Digest] = true
		}
	}
	return needed
}
