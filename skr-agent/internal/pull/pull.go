// Package pull gets a runtime's bundle: a registry or folder goes in, the newest bundle that may be followed comes out, and it is
// kept in the runtime's own cluster together with the content it needs.
//
// What is absent, unreadable or refused changes nothing: the last accepted bundle stays in force.
package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"oras.land/oras-go/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/content"
)

// Options are what a Puller needs.
type Options struct {
	Place      *bundle.Place
	Registries *bundle.Registries
	// Client does not cache.
	Client    client.Client
	Namespace string
	Store     *content.Store
	// Trust is what the runtime knows before it looks at a bundle; its Last is the Puller's own.
	Trust bundle.Trust
	Now   func() time.Time
}

// Puller holds the bundle in force. It is used by one goroutine.
type Puller struct {
	Options
	current  *bundle.Bundle
	accepted bundle.Accepted
	refused  []bundle.RefusedBundle
}

const (
	stateSecret   = "skr-agent-state"
	stateAccepted = "accepted.json"
	stateManifest = "manifest.json"
)

// New gives a Puller without a bundle in force; see Restore.
func New(options Options) *Puller { return &Puller{Options: options} }

// Current is the bundle in force, nil before the first.
func (p *Puller) Current() *bundle.Bundle { return p.current }

// Refused are the bundles refused since the last one accepted, newest last.
func (p *Puller) Refused() []bundle.RefusedBundle { return p.refused }

// Expired says that the time of the bundle in force is over: it stays in force, but nothing newer came.
func (p *Puller) Expired() bool {
	return p.current != nil && !p.Clock().Before(p.current.Statement.Predicate.ExpiresAt)
}

// Clock is the time, never behind the newest that somebody trusted signed.
func (p *Puller) Clock() time.Time {
	if now := p.Now(); now.After(p.accepted.NewestTime) {
		return now
	}
	return p.accepted.NewestTime
}

// Restore takes up the bundle that was in force before a restart. What was kept is checked against the root again, for the
// cluster's Secrets are not the publisher. State that is lost or damaged is said and started over, never guessed.
func (p *Puller) Restore(ctx context.Context) error {
	var secret corev1.Secret
	err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: stateSecret}, &secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %w", p.Namespace, stateSecret, err)
	}
	if err := json.Unmarshal(secret.Data[stateAccepted], &p.accepted); err != nil {
		return fmt.Errorf("read Secret %s/%s: %s: %w", p.Namespace, stateSecret, stateAccepted, err)
	}
	fetched := bundle.Fetched{
		Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: p.accepted.Digest}, Bytes: secret.Data[stateManifest],
	}
	verified, err := bundle.Adopt(fetched, p.Trust.Root, p.Trust.Runtime)
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %w", p.Namespace, stateSecret, err)
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
	p.current = &restored
	return nil
}

// Pull looks for a newer bundle and takes it into force when it may be followed. It says whether there is another bundle in
// force than before. The error is a *bundle.Refusal, or says that the registry could not be read; both leave what is in force.
func (p *Puller) Pull(ctx context.Context) (bool, error) {
	repository, err := p.Place.Reading(ctx, bundle.DesiredRepository(p.Trust.Runtime))
	if err != nil {
		return false, err
	}
	newest, err := bundle.Head(ctx, repository, bundle.TagDesired)
	if err != nil {
		return false, err
	}
	if p.current != nil && newest == p.current.Digest {
		p.refused = nil
		return false, nil
	}
	// From here on the digest names the bundle: a tag that is moved between two reads moves nothing.
	fetched, err := bundle.Fetch(ctx, repository, newest.String())
	if err != nil {
		return false, err
	}
	next, err := p.judge(ctx, repository, fetched)
	if refusal := bundle.RefusalOf(err); refusal != nil {
		p.noteRefusal(newest, refusal)
		return false, refusal
	}
	if err != nil {
		return false, err
	}
	if err := p.keep(ctx, next, fetched.Bytes); err != nil {
		return false, err
	}
	p.current, p.accepted, p.refused = &next.Bundle, next.Accepted, nil
	return true, nil
}

// pulled is a bundle with the bytes of its documents, to be kept.
type pulled struct {
	bundle.Bundle
	config, catalog []byte
}

func (p *Puller) judge(ctx context.Context, repository oras.ReadOnlyTarget, fetched bundle.Fetched) (pulled, error) {
	trust := p.Trust
	trust.Last = p.accepted
	verified, err := bundle.Verify(fetched, trust, p.Now())
	if err != nil {
		return pulled{}, err
	}
	config, err := bundle.FetchBlob(ctx, repository, verified.Config, bundle.MaxDocumentBytes)
	if err != nil {
		return pulled{}, fmt.Errorf("config: %w", err)
	}
	catalog, err := bundle.FetchBlob(ctx, repository, verified.Catalog, bundle.MaxDocumentBytes)
	if err != nil {
		return pulled{}, fmt.Errorf("layers[0]: %w", err)
	}
	opened, err := verified.Open(config, catalog)
	return pulled{opened, config, catalog}, err
}

func (p *Puller) noteRefusal(d digest.Digest, refusal *bundle.Refusal) {
	if n := len(p.refused); n > 0 && p.refused[n-1].Digest == d && p.refused[n-1].Reason == refusal.Reason {
		return
	}
	p.refused = append(p.refused, bundle.RefusedBundle{Digest: d, Reason: refusal.Reason, Detail: truncate(refusal.Detail), Time: p.Now().UTC().Truncate(time.Second)})
	if len(p.refused) > bundle.MaxRefusedReported {
		p.refused = p.refused[1:]
	}
}

func truncate(message string) string {
	if len(message) > bundle.MaxMessageBytes {
		return strings.ToValidUTF8(message[:bundle.MaxMessageBytes], "")
	}
	return message
}

// keep stores the documents and then the statement: a crash in between leaves the bundle before in force, whole.
func (p *Puller) keep(ctx context.Context, next pulled, manifest []byte) error {
	if err := p.Store.Put(ctx, next.Config.Digest, next.config); err != nil {
		return fmt.Errorf("keep bundle %s: %w", next.Digest, err)
	}
	if err := p.Store.Put(ctx, next.Catalog.Digest, next.catalog); err != nil {
		return fmt.Errorf("keep bundle %s: %w", next.Digest, err)
	}
	accepted, err := json.Marshal(next.Accepted)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: stateSecret},
		Data:       map[string][]byte{stateAccepted: accepted, stateManifest: manifest},
	}
	err = p.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = p.Client.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("keep bundle %s: %w", next.Digest, err)
	}
	return nil
}

// Stage makes the content of every module of the bundle in force be in the store. A module whose content cannot be had is the
// only one to suffer: the answer holds the reasons, by module.
func (p *Puller) Stage(ctx context.Context) map[string]error {
	problems := map[string]error{}
	if p.current == nil {
		return problems
	}
	for _, manifest := range p.current.State.All() {
		for _, c := range manifest.Content {
			if err := p.stage(ctx, c); err != nil {
				problems[manifest.Module] = err
				break
			}
		}
	}
	return problems
}

func (p *Puller) stage(ctx context.Context, c bundle.Content) error {
	there, err := p.Store.Has(ctx, c.Digest)
	if err != nil || there {
		return err
	}
	from, err := p.contentRepository(ctx, c.Repository)
	if err != nil {
		return err
	}
	data, err := bundle.FetchBlob(ctx, from, ocispec.Descriptor{MediaType: c.MediaType, Digest: c.Digest, Size: c.SizeBytes}, bundle.MaxLayerBytes)
	if errors.Is(err, bundle.ErrNotFound) {
		return fmt.Errorf("content %s is not in %s: ask who runs that registry", c.Digest, c.Repository)
	}
	if err != nil {
		return fmt.Errorf("content of %s: %w", c.Repository, err)
	}
	return p.Store.Put(ctx, c.Digest, data)
}

func (p *Puller) contentRepository(ctx context.Context, name string) (oras.ReadOnlyTarget, error) {
	if relative, ok := strings.CutPrefix(name, "./"); ok {
		return p.Place.Reading(ctx, relative)
	}
	return p.Registries.Repository(p.current.State.Settings.Mirrored(name))
}

// Needed are the digests of everything that the bundle in force needs.
func (p *Puller) Needed() map[digest.Digest]bool {
	needed := map[digest.Digest]bool{}
	if p.current == nil {
		return needed
	}
	needed[p.current.Config.Digest], needed[p.current.Catalog.Digest] = true, true
	for _, manifest := range p.current.State.All() {
		for _, c := range manifest.Content {
			needed[c.Digest] = true
		}
	}
	return needed
}
