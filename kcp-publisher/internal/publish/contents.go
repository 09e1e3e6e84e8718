package publish

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// contentCacheTime limits the age of a component's cached content. During a promotion, thousands of runtimes need the
// same content at the same time.
const contentCacheTime = 2 * time.Second

// cachedContent is a component's cached content. id is the content's hash.
type cachedContent struct {
	resolve.Content
	id     digest.Digest
	readAt time.Time
	rules  contentRules
	// bytes is the size of the encoded content in bytes.
	bytes int
}

// contentKey is the cache key for a component's content. A descriptor in a ModuleTemplate is compared by its pointer.
// Each new catalog snapshot has new pointers, so the cache does not return content for an older snapshot.
type contentKey struct {
	resolve.ComponentRef
	descriptor  *ocm.Descriptor
	isSelfNamed bool
}

// contentRules identifies the signature policy and the root of trust that were used to verify a component's content.
type contentRules struct {
	round int
	root  int64
}

// maxContentsBytes limits the size of each of the two caches for component content.
const maxContentsBytes = 32 << 20

// cachedContents contains the content for all components that a request needs.
type cachedContents struct {
	contents map[resolve.ComponentRef]resolve.Content
	id       digest.Digest
	readAt   time.Time
	rules    contentRules
	bytes    int
}

// maxNeeded limits the number of cachedContents in the cache.
const maxNeeded = 1_000

func newContentsFound() *memo.Memo[contentKey, cachedContent] {
	return memo.New(memo.Limit{Bytes: maxContentsBytes}, func(_ contentKey, found cachedContent) int {
		return found.bytes + memo.EntryBytes
	})
}

func newContentsNeeded() *memo.Memo[resolutionKey, cachedContents] {
	return memo.New(memo.Limit{Bytes: maxContentsBytes, Entries: maxNeeded},
		func(_ resolutionKey, needed cachedContents) int {
			return needed.bytes + memo.EntryBytes
		})
}

// neededContents returns the content for all components that a request needs. It caches the result, because thousands
// of runtimes can have equal requests.
func (p *Publisher) neededContents(
	ctx context.Context, key resolutionKey, request resolve.Request, snapshot *catalog.Snapshot,
) (cachedContents, error) {
	rules, now := contentRules{p.Components.RecheckCount(), p.Root().Version}, p.Now()
	known, _ := p.contentsNeeded.Get(key)
	if known.rules == rules && isFresh(known.readAt, now) {
		return known, nil
	}
	contents, ids, bytes, err := p.readContents(ctx, resolve.ListNeeds(request, snapshot))
	if err != nil {
		return cachedContents{}, err
	}
	fresh := cachedContents{contents: contents, id: digest.FromBytes(memo.Encode(ids)), readAt: now, rules: rules,
		bytes: bytes}
	for _, content := range contents {
		if content.Err != nil {
			// Do not cache content with an error here, because the component reader already caches errors.
			return fresh, nil
		}
	}
	p.pruneContents(now)
	p.contentsNeeded.Put(key, fresh)
	return fresh, nil
}

func isFresh(at, now time.Time) bool {
	age := now.Sub(at)
	return !at.IsZero() && age >= 0 && age < contentCacheTime
}

func (p *Publisher) pruneContents(now time.Time) {
	p.mu.Lock()
	recently := isFresh(p.contentsPruned, now)
	if !recently {
		p.contentsPruned = now
	}
	p.mu.Unlock()
	if !recently {
		p.contentsFound.Prune(func(found cachedContent) bool { return !isFresh(found.readAt, now) })
		p.contentsNeeded.Prune(func(needed cachedContents) bool { return !isFresh(needed.readAt, now) })
	}
}

// readContents reads each component in needs once. If a component cannot be read, its content contains the error, so
// that only its module is affected.
func (p *Publisher) readContents(
	ctx context.Context, needs []resolve.ComponentNeed,
) (contents map[resolve.ComponentRef]resolve.Content, ids []digest.Digest, bytes int, err error) {
	contents = make(map[resolve.ComponentRef]resolve.Content, len(needs))
	ids = make([]digest.Digest, 0, len(needs))
	rules := contentRules{p.Components.RecheckCount(), p.Root().Version}
	for _, need := range needs {
		if _, done := contents[need.ComponentRef]; done {
			continue
		}
		found, err := p.findContent(ctx, need, rules)
		if err != nil {
			return nil, nil, 0, err
		}
		contents[need.ComponentRef] = found.Content
		bytes += found.bytes
		ids = append(ids, found.id)
	}
	return contents, ids, bytes, nil
}

// findContent reads a component's content. If the component cannot be read, the content contains the error. findContent
// returns an error only if the context has ended.
func (p *Publisher) findContent(
	ctx context.Context, need resolve.ComponentNeed, rules contentRules,
) (cachedContent, error) {
	key, now := contentKey{need.ComponentRef, need.Descriptor, need.IsSelfNamed}, p.Now()
	known, _ := p.contentsFound.Get(key)
	if known.rules == rules && isFresh(known.readAt, now) {
		return known, nil
	}
	content, err := p.readContent(ctx, need)
	if ctx.Err() != nil {
		return cachedContent{}, ctx.Err()
	}
	id, bytes := contentID(need.ComponentRef, content, err)
	fresh := cachedContent{Content: content, id: id, readAt: now, rules: rules, bytes: bytes}
	if fresh.Err = err; err != nil {
		// Do not cache an error here, because the component reader already caches errors.
		return fresh, nil
	}
	p.pruneContents(now)
	p.contentsFound.Put(key, fresh)
	return fresh, nil
}

// contentID encodes content together with its error. It returns the encoding's digest and size in bytes.
func contentID(ref resolve.ComponentRef, content resolve.Content, err error) (id digest.Digest, bytes int) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	text := memo.Encode(struct {
		Ref     resolve.ComponentRef
		Content resolve.Content
		Error   string
	}{ref, content, problem})
	return digest.FromBytes(text), len(text)
}

func (p *Publisher) readContent(ctx context.Context, need resolve.ComponentNeed) (resolve.Content, error) {
	found, err := p.readComponent(ctx, need)
	if err != nil {
		return resolve.Content{}, err
	}
	selection, err := bundle.Select(found.Descriptor)
	if err != nil {
		return resolve.Content{}, err
	}
	all, err := p.Components.Closure(ctx, found)
	if err != nil {
		return resolve.Content{}, err
	}
	signed := p.RequiresSignature != nil && p.RequiresSignature(need.Component)
	if p.RequiresSignature != nil && !signed && need.IsSelfNamed {
		return resolve.Content{},
			reason.Errorf(reason.ComponentUnsigned,
				"component %s:%s is unsigned: the signature policy exempts this name, but the name comes only from the "+
					"unsigned descriptor: set ModuleReleaseMeta spec.ocmComponentName", need.Component, need.Version)
	}
	root := p.Root()
	content := resolve.Content{Images: component.Images(all, signed || root.HasReleaseKeys())}
	evidence := &releaseProof{}
	if content.Install, err = p.copyPart(ctx, found, selection.Install, selection.Type, evidence); err != nil {
		return resolve.Content{}, err
	}
	for _, more := range []struct {
		resource *ocm.Resource
		part     **resolve.Part
	}{{selection.Values, &content.Values}, {selection.Checks, &content.Checks}} {
		if more.resource == nil {
			continue
		}
		part, err := p.copyPart(ctx, found, *more.resource, v1beta2.OCIRef, evidence)
		if err != nil {
			return resolve.Content{}, err
		}
		*more.part = &part
	}
	if content.IsLocked = root.HasReleaseKeys(); content.IsLocked && selection.DefaultCR != nil {
		if content.DefaultCR, err = p.copyDefaultCR(ctx, found, *selection.DefaultCR, evidence); err != nil {
			return resolve.Content{}, err
		}
	}
	return content, p.proveRelease(ctx, root, all, evidence, &content)
}

// copyDefaultCR copies the component resource with a module's default CR to the runtimes' registry, and decodes the
// default CR.
func (p *Publisher) copyDefaultCR(
	ctx context.Context, c component.Component, r ocm.Resource, proof *releaseProof,
) (*resolve.DefaultCR, error) {
	part, err := p.copyPart(ctx, c, r, v1beta2.OCIRef, proof)
	if err != nil {
		return nil, err
	}
	data, err := p.Components.Bytes(ctx, c, r)
	if err != nil {
		return nil, err
	}
	object, err := render.DefaultCR(data)
	if err != nil {
		return nil, fmt.Errorf("component %s:%s: resource %q: %w", c.Descriptor.Name, c.Descriptor.Version, r.Name, err)
	}
	return &resolve.DefaultCR{Part: part, Object: object}, nil
}

func (p *Publisher) readComponent(ctx context.Context, need resolve.ComponentNeed) (component.Component, error) {
	if need.Descriptor != nil {
		return p.Components.Inline(ctx, *need.Descriptor)
	}
	return p.Components.Component(ctx, need.Component, need.Version)
}

// copyPart copies a component resource's content to the registry from which the runtimes pull.
func (p *Publisher) copyPart(
	ctx context.Context, c component.Component, r ocm.Resource, kind v1beta2.ImageSpecType, proof *releaseProof,
) (resolve.Part, error) {
	content, err := p.Components.Content(ctx, c, r, p.Place)
	if err != nil {
		return resolve.Part{}, err
	}
	if content.Manifest != nil {
		proof.add(ocispec.MediaTypeImageManifest, content.Manifest)
	}
	return resolve.Part{Content: content.Content, Type: kind}, nil
}

// releaseProof contains the documents that agents need to verify that a component was released.
type releaseProof struct{ blobs []bundle.Blob }

func (e *releaseProof) add(mediaType string, data []byte) {
	e.blobs = append(e.blobs, bundle.NewBlob(mediaType, data))
}

// proveRelease verifies, in the same way as agents do, that a component's content belongs to a signed release. It also
// pushes the documents that agents need for this check. If it returns an error, only the component's module is
// affected.
func (p *Publisher) proveRelease(
	ctx context.Context, root trust.Root, all []component.Component, proof *releaseProof, content *resolve.Content,
) error {
	main := all[0].Descriptor
	released := trust.Released{Component: main.Name, Version: main.Version, Images: content.Images}
	if !root.HasReleaseKeys() {
		return root.CheckFloor(released.Component, released.Version)
	}
	for _, c := range all {
		document, err := c.Descriptor.Document()
		if err != nil {
			return err
		}
		proof.add(trust.MediaTypeDescriptor, document)
	}
	documents := make(map[digest.Digest][]byte, len(proof.blobs))
	for _, blob := range proof.blobs {
		documents[blob.Descriptor.Digest] = blob.Bytes
	}
	for _, part := range content.Parts() {
		released.Contents = append(released.Contents, trust.ReleasedContent{Name: part.Name, Digest: part.Digest})
	}
	if _, err := root.CheckRelease(released, documents, p.Now()); err != nil {
		return err
	}
	for _, blob := range proof.blobs {
		if err := store.ShareBlob(ctx, p.Place, blob); err != nil {
			return fmt.Errorf("push the release documents of component %s:%s: %w", main.Name, main.Version, err)
		}
		content.Release = append(content.Release, bundle.Content{
			Name: "release", Repository: p.Place.Name(bundle.ContentRepository),
			MediaType: blob.Descriptor.MediaType, Digest: blob.Descriptor.Digest, SizeBytes: blob.Descriptor.Size,
		})
	}
	slices.SortFunc(content.Release, func(a, b bundle.Content) int { return cmp.Compare(a.Digest, b.Digest) })
	return nil
}
