package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// A component's content is cached for contentLife. During a promotion, thousands of runtimes need the
// same content at the same time.
const contentLife = 2 * time.Second

// foundContent is the cached content of a component. id is a hash of the content.
type foundContent struct {
	resolve.Content
	id digest.Digest
	at time.Time
	by contentRules
	// bytes is the size of the encoded content in bytes.
	bytes int
}

// contentKey is the cache key of a component's content. An inline descriptor is compared by its pointer, so each change
// of the catalog leads to new keys.
type contentKey struct {
	resolve.Ref
	descriptor  *ocm.Descriptor
	namesItself bool
}

// contentRules identifies the signature policy and the root of trust with which a component's content was verified.
type contentRules struct {
	round int
	root  int64
}

// maxContentsBytes limits the size of each of the two caches for component contents.
const maxContentsBytes = 32 << 20

// neededContents contains the contents of all components that a request needs.
type neededContents struct {
	contents map[resolve.Ref]resolve.Content
	id       digest.Digest
	at       time.Time
	by       contentRules
	bytes    int
}

// maxNeeded limits the number of cached neededContents.
const maxNeeded = 1_000

func newContentsFound() *memo.Memo[contentKey, foundContent] {
	return memo.New(memo.Limit{Bytes: maxContentsBytes}, func(_ contentKey, found foundContent) int {
		return found.bytes + memo.EntryBytes
	})
}

func newContentsNeeded() *memo.Memo[resolutionKey, neededContents] {
	return memo.New(memo.Limit{Bytes: maxContentsBytes, Entries: maxNeeded},
		func(_ resolutionKey, needed neededContents) int {
			return needed.bytes + memo.EntryBytes
		})
}

// needed returns the contents of all components that a request needs. It caches the result, because thousands of
// runtimes can have equal requests.
func (p *Publisher) needed(
	ctx context.Context, asked resolutionKey, request resolve.Request, snapshot *catalog.Snapshot,
) (neededContents, error) {
	rules, now := contentRules{p.Components.Round(), p.Root().Version}, p.Now()
	known, _ := p.contentsNeeded.Find(asked)
	if known.by == rules && isFresh(known.at, now) {
		return known, nil
	}
	contents, ids, bytes, err := p.contents(ctx, resolve.Needs(request, snapshot))
	if err != nil {
		return neededContents{}, err
	}
	fresh := neededContents{contents: contents, id: digest.FromBytes(encoded(ids)), at: now, by: rules, bytes: bytes}
	for _, content := range contents {
		if content.Err != nil {
			// Do not cache the contents here, because the component reader caches errors.
			return fresh, nil
		}
	}
	p.pruneContents(now)
	p.contentsNeeded.Put(asked, fresh)
	return fresh, nil
}

func isFresh(at, now time.Time) bool {
	age := now.Sub(at)
	return !at.IsZero() && age >= 0 && age < contentLife
}

func (p *Publisher) pruneContents(now time.Time) {
	p.mu.Lock()
	recently := isFresh(p.contentsPruned, now)
	if !recently {
		p.contentsPruned = now
	}
	p.mu.Unlock()
	if !recently {
		p.contentsFound.Prune(func(found foundContent) bool { return !isFresh(found.at, now) })
		p.contentsNeeded.Prune(func(needed neededContents) bool { return !isFresh(needed.at, now) })
	}
}

// contents reads each component in needs once. If a component cannot be read, its content contains the error, so that
// only its module is affected.
func (p *Publisher) contents(
	ctx context.Context, needs []resolve.Need,
) (contents map[resolve.Ref]resolve.Content, ids []digest.Digest, bytes int, err error) {
	contents = make(map[resolve.Ref]resolve.Content, len(needs))
	ids = make([]digest.Digest, 0, len(needs))
	rules := contentRules{p.Components.Round(), p.Root().Version}
	for _, need := range needs {
		if _, done := contents[need.Ref]; done {
			continue
		}
		found, err := p.found(ctx, need, rules)
		if err != nil {
			return nil, nil, 0, err
		}
		contents[need.Ref] = found.Content
		bytes += found.bytes
		ids = append(ids, found.id)
	}
	return contents, ids, bytes, nil
}

// found reads a component's content. If the component cannot be read, the content contains the error. The method itself
// returns an error only if the context has ended.
func (p *Publisher) found(ctx context.Context, need resolve.Need, rules contentRules) (foundContent, error) {
	key, now := contentKey{need.Ref, need.Descriptor, need.NamesItself}, p.Now()
	known, _ := p.contentsFound.Find(key)
	if known.by == rules && isFresh(known.at, now) {
		return known, nil
	}
	content, err := p.content(ctx, need)
	if ctx.Err() != nil {
		return foundContent{}, ctx.Err()
	}
	id, bytes := idOf(need.Ref, content, err)
	fresh := foundContent{Content: content, id: id, at: now, by: rules, bytes: bytes}
	if fresh.Err = err; err != nil {
		// Do not cache the content here, because the component reader caches errors.
		return fresh, nil
	}
	p.pruneContents(now)
	p.contentsFound.Put(key, fresh)
	return fresh, nil
}

// idOf returns the digest and the size in bytes of an encoded content. The encoding includes the error.
func idOf(ref resolve.Ref, content resolve.Content, err error) (id digest.Digest, bytes int) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	text := encoded(struct {
		Ref     resolve.Ref
		Content resolve.Content
		Error   string
	}{ref, content, problem})
	return digest.FromBytes(text), len(text)
}

func encoded(data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("plain data always encodes: %v", err))
	}
	return text
}

func (p *Publisher) content(ctx context.Context, need resolve.Need) (resolve.Content, error) {
	found, err := p.component(ctx, need)
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
	signed := p.Requires != nil && p.Requires(need.Component)
	if p.Requires != nil && !signed && need.NamesItself {
		return resolve.Content{},
			reason.Errorf(reason.ComponentUnsigned,
				"component %s:%s is unsigned, and the exemption from the signature policy is based on the name in "+
					"its own descriptor: set ModuleReleaseMeta spec.ocmComponentName", need.Component, need.Version)
	}
	root := p.Root()
	content := resolve.Content{Images: component.Images(all, signed || root.HasReleaseKeys())}
	evidence := &evidence{}
	if content.Install, err = p.part(ctx, found, selection.Install, selection.Type, evidence); err != nil {
		return resolve.Content{}, err
	}
	for _, more := range []struct {
		resource *ocm.Resource
		part     **resolve.Part
	}{{selection.Values, &content.Values}, {selection.Checks, &content.Checks}} {
		if more.resource == nil {
			continue
		}
		part, err := p.part(ctx, found, *more.resource, v1beta2.OCIRef, evidence)
		if err != nil {
			return resolve.Content{}, err
		}
		*more.part = &part
	}
	if content.Locked = root.HasReleaseKeys(); content.Locked && selection.DefaultCR != nil {
		if content.DefaultCR, err = p.defaultCR(ctx, found, *selection.DefaultCR, evidence); err != nil {
			return resolve.Content{}, err
		}
	}
	return content, p.prove(ctx, root, all, evidence, &content)
}

// defaultCR copies the component resource that contains a module's default CR to the registry of the runtimes, and
// decodes it.
func (p *Publisher) defaultCR(
	ctx context.Context, c component.Component, r ocm.Resource, evidence *evidence,
) (*resolve.DefaultCR, error) {
	part, err := p.part(ctx, c, r, v1beta2.OCIRef, evidence)
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

func (p *Publisher) component(ctx context.Context, need resolve.Need) (component.Component, error) {
	if need.Descriptor != nil {
		return p.Components.Inline(ctx, *need.Descriptor)
	}
	return p.Components.Component(ctx, need.Component, need.Version)
}

// part copies the content of a component resource to the registry of the runtimes.
func (p *Publisher) part(
	ctx context.Context, c component.Component, r ocm.Resource, kind v1beta2.ImageSpecType, evidence *evidence,
) (resolve.Part, error) {
	content, err := p.Components.Content(ctx, c, r, p.Place)
	if err != nil {
		return resolve.Part{}, err
	}
	if content.Manifest != nil {
		evidence.add(ocispec.MediaTypeImageManifest, content.Manifest)
	}
	return resolve.Part{Content: content.Content, Type: kind}, nil
}
