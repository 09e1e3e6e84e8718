package export

import (
	"context"
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

// Contents finds the images of the module versions that runtimes have reported: the images that components list, and
// the images in rendered objects. To find a version's content, it reads the bundles of up to MaxBundlesTried runtimes
// with this version. Options.Runtimes, Since and Images have no effect.
func Contents(
	ctx context.Context, options Options, runtimes []inventory.Runtime,
) (map[inventory.Module]inventory.Content, error) {
	g := &gatherer{Options: options, usedImages: usedImages{}}
	found := map[inventory.Module]inventory.Content{}
	tried := map[inventory.Module]int{}
	for i := range runtimes {
		r := &runtimes[i]
		pending := func(m inventory.Module) bool {
			content, known := found[m]
			return (!known || content.Problem != "") && tried[m] < MaxBundlesTried
		}
		if r.Bundle == "" || !slices.ContainsFunc(r.Modules, pending) {
			continue
		}
		b, err := g.readBundle(ctx, r.ID, r.Bundle)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for _, m := range r.Modules {
			if !pending(m) {
				continue
			}
			tried[m]++
			if err != nil {
				found[m] = inventory.Content{
					Problem: fmt.Sprintf("read bundle %s of runtime %s: %v", r.Bundle, r.ID, err),
				}
				continue
			}
			content, inBundle := g.findContent(ctx, r.ID, m, b)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if inBundle {
				found[m] = content
			}
		}
	}
	return found, nil
}

// MaxBundlesTried limits the number of bundles that Contents reads for one module version.
const MaxBundlesTried = 3

func (g *gatherer) findContent(
	ctx context.Context, runtime string, of inventory.Module, b publishedBundle,
) (inventory.Content, bool) {
	for _, m := range b.State.All() {
		if m.Module != of.Name || m.Version != of.Version {
			continue
		}
		content := inventory.Content{Images: slices.Clone(m.Spec.LocalizedImages)}
		if g.Rendering == nil {
			return content, true
		}
		kubernetes := g.KubernetesVersion
		var err error
		if kubernetes == "" {
			kubernetes, err = g.kubernetes(ctx, runtime)
		}
		var used []string
		if err == nil {
			used, err = g.usedBy(ctx, m, b, kubernetes)
		}
		if err != nil {
			content.Problem = fmt.Sprintf("find the images of its objects: %v", err)
			return content, true
		}
		content.Images = append(content.Images, unlistedImages(used, content.Images)...)
		return content, true
	}
	return inventory.Content{}, false
}
