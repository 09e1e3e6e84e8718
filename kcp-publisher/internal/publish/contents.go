package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// contentLife is the time that a found content is not looked up again. Thousands of runtimes request the same few
// contents at once. The component reader caches most of them, but it checks for each request whether the registry still
// has the stored content.
const contentLife = 2 * time.Second

// foundContent is the content of a component at the time of its lookup. Its id distinguishes different contents.
type foundContent struct {
	resolve.Content
	id digest.Digest
	at time.Time
	by contentRules
	// bytes is the size of the encoded content.
	bytes int
}

// contentKey identifies a requested content. A descriptor in a ModuleTemplate is a new key after each change of the
// catalog.
type contentKey struct {
	resolve.Ref
	descriptor  *ocm.Descriptor
	namesItself bool
}

// contentRules are the rules that decide whether a content is allowed.
type contentRules struct {
	round int
	root  int64
}

// maxContentsBytes limits the remembered contents, and the contents of whole requests.
const maxContentsBytes = 32 << 20

// neededContents are the contents of all components for a request. Their id distinguishes different contents.
type neededContents struct {
	contents map[resolve.Ref]resolve.Content
	id       digest.Digest
	at       time.Time
	by       contentRules
	bytes    int
}

// maxNeeded limits the requests whose contents are remembered.
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

// needed returns the contents of the components for a request. Equal requests, of which a fleet has thousands at once,
// share one lookup.
func (p *Publisher) needed(
	ctx context.Context, asked resolutionKey, request resolve.Request, snapshot *catalog.Snapshot,
) (neededContents, error) {
	rules, now := contentRules{p.Components.Round(), p.Root().Version}, p.Now()
	known, _ := p.contentsNeeded.Find(asked)
	if known.by == rules && inLife(known.at, now) {
		return known, nil
	}
	contents, ids, bytes, err := p.contents(ctx, resolve.Needs(request, snapshot))
	if err != nil {
		return neededContents{}, err
	}
	fresh := neededContents{contents: contents, id: digest.FromBytes(encoded(ids)), at: now, by: rules, bytes: bytes}
	for _, content := range contents {
		if content.Err != nil {
			return fresh, nil // the reader caches it as long as it is valid
		}
	}
	p.pruneContents(now)
	p.contentsNeeded.Put(asked, fresh)
	return fresh, nil
}

// inLife reports whether a content that was found at a time, or zero for never, is still fresh.
func inLife(at, now time.Time) bool {
	age := now.Sub(at)
	return !at.IsZero() && age >= 0 && age < contentLife
}

// pruneContents regularly drops contents that no runtime requests anymore.
func (p *Publisher) pruneContents(now time.Time) {
	p.mu.Lock()
	recently := inLife(p.contentsPruned, now)
	if !recently {
		p.contentsPruned = now
	}
	p.mu.Unlock()
	if !recently {
		p.contentsFound.Prune(func(found foundContent) bool { return !inLife(found.at, now) })
		p.contentsNeeded.Prune(func(needed neededContents) bool { return !inLife(needed.at, now) })
	}
}

// contents reads each component of a request once, and returns the contents with their ids. An unreadable component
// only affects its own module.
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

// found returns the content of a component, or the reason why it is unknown. The error is the context's.
func (p *Publisher) found(ctx context.Context, need resolve.Need, rules contentRules) (foundContent, error) {
	key, now := contentKey{need.Ref, need.Descriptor, need.NamesItself}, p.Now()
	known, _ := p.contentsFound.Find(key)
	if known.by == rules && inLife(known.at, now) {
		return known, nil
	}
	content, err := p.content(ctx, need)
	if ctx.Err() != nil {
		return foundContent{}, ctx.Err()
	}
	id, bytes := idOf(need.Ref, content, err)
	fresh := foundContent{Content: content, id: id, at: now, by: rules, bytes: bytes}
	if fresh.Err = err; err != nil {
		return fresh, nil // the reader caches it as long as it is valid
	}
	p.pruneContents(now)
	p.contentsFound.Put(key, fresh)
	return fresh, nil
}

// idOf returns a digest of a content or of its error, and the number of bytes of the content.
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

// encoded returns plain data, without channels, functions or cycles, as JSON.
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
	selection, err := resolve.Select(found.Descriptor)
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
				"component %s:%s: only its unsigned descriptor contains its name, which the signature policy allows: "+
					"set ModuleReleaseMeta spec.ocmComponentName", need.Component, need.Version)
	}
	root := p.Root()
	content := resolve.Content{Images: component.Images(all, signed || root.Locked())}
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
	return content, p.prove(ctx, root, all, evidence, &content)
}

func (p *Publisher) component(ctx context.Context, need resolve.Need) (component.Component, error) {
	if need.Descriptor != nil {
		return p.Components.Inline(ctx, *need.Descriptor)
	}
	return p.Components.Component(ctx, need.Component, need.Version)
}

// part returns a resource's content at the location from which runtimes read it.
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
