package export

import (
	"cmp"
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

// Contents finds the images of the module versions that runtimes have reported: the images that components list, and
// the images in rendered objects. To find a version's content, it reads the bundles of up to MaxBundlesTried runtimes
// with this version. It renders a version once for each Kubernetes version in runtimes. It ignores Options.Runtimes,
// Since and Images.
func Contents(
	ctx context.Context, options Options, runtimes []inventory.Runtime,
) (map[inventory.Module]inventory.Content, error) {
	g := &gatherer{Options: options}
	found := map[inventory.Module]inventory.Content{}
	tried := map[inventory.Module]int{}
	versions := kubernetesVersions(runtimes)
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
		if err == nil && g.Rendering != nil {
			g.renderAll(ctx, r, b, slices.DeleteFunc(slices.Clone(r.Modules), func(m inventory.Module) bool {
				return !pending(m)
			}), versions)
		}
		for _, m := range r.Modules {
			if !pending(m) {
				continue
			}
			tried[m]++
			if err != nil {
				if len(found[m].Images) == 0 {
					found[m] = inventory.Content{
						Problem: fmt.Sprintf("read bundle %s of runtime %s: %v", r.Bundle, r.ID, err),
					}
				}
				continue
			}
			content, inBundle := g.findContent(ctx, r, m, b, versions[m])
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if inBundle {
				found[m] = found[m].Merge(content)
			}
		}
	}
	return found, nil
}

// MaxBundlesTried limits the number of bundles that Contents reads for one module version.
const MaxBundlesTried = 3

// maxKubernetesVersions limits the renderings per module version. A runtime can report any Kubernetes version.
const maxKubernetesVersions = 32

// kubernetesVersions returns the Kubernetes versions of the runtimes with each module version, sorted.
func kubernetesVersions(runtimes []inventory.Runtime) map[inventory.Module][]string {
	all := map[inventory.Module][]string{}
	for i := range runtimes {
		r := &runtimes[i]
		if _, err := version.ParseSemantic(r.Kubernetes); err != nil {
			continue
		}
		for _, m := range r.Modules {
			if at, known := slices.BinarySearch(all[m], r.Kubernetes); !known {
				all[m] = slices.Insert(all[m], at, r.Kubernetes)
			}
		}
	}
	return all
}

// findContent returns the images of a module version in a runtime's bundle, and the version's images for other
// Kubernetes versions.
func (g *gatherer) findContent(
	ctx context.Context, r *inventory.Runtime, of inventory.Module, b publishedBundle, versions []string,
) (inventory.Content, bool) {
	for _, m := range b.State.All() {
		if m.Module == of.Name && m.Version == of.Version {
			return g.contentOf(ctx, r, m, b, versions), true
		}
	}
	return inventory.Content{}, false
}

const defaultMaxRenderings = 4

// renderAll renders several modules of a bundle at the same time and caches the results for contentOf. contentOf
// reports the errors.
func (g *gatherer) renderAll(
	ctx context.Context, r *inventory.Runtime, b publishedBundle, modules []inventory.Module,
	versions map[inventory.Module][]string,
) {
	var group errgroup.Group
	group.SetLimit(min(goruntime.GOMAXPROCS(0), cmp.Or(g.MaxRenderings, defaultMaxRenderings)))
	for _, m := range b.State.All() {
		of := inventory.Module{Name: m.Module, Version: m.Version}
		if !slices.Contains(modules, of) {
			continue
		}
		known, err := g.renderedVersions(ctx, r, versions[of])
		if err != nil {
			continue
		}
		for _, kubernetes := range known[:min(len(known), maxKubernetesVersions)] {
			group.Go(func() error {
				_, _ = g.usedBy(ctx, m, b, kubernetes)
				return nil
			})
		}
	}
	_ = group.Wait() // ignore the error, which is always nil
}

// renderedVersions returns the Kubernetes versions to render a module for: the version in the options, otherwise the
// versions of all runtimes with the module, otherwise the version in r's report.
func (g *gatherer) renderedVersions(
	ctx context.Context, r *inventory.Runtime, reported []string,
) (versions []string, err error) {
	if g.KubernetesVersion != "" {
		return []string{g.KubernetesVersion}, nil
	}
	if len(reported) > 0 {
		return reported, nil
	}
	only, err := g.kubernetes(ctx, r.ID)
	return []string{only}, err
}

func (g *gatherer) contentOf(
	ctx context.Context, r *inventory.Runtime, m bundle.Manifest, b publishedBundle, versions []string,
) inventory.Content {
	content := inventory.Content{Images: slices.Clone(m.Spec.LocalizedImages)}
	if g.Rendering == nil {
		return content
	}
	versions, err := g.renderedVersions(ctx, r, versions)
	if err != nil {
		content.Problem = fmt.Sprintf("find the images of its objects: %v", err)
		return content
	}
	listed, rendered := content.Images, false
	for _, kubernetes := range versions[:min(len(versions), maxKubernetesVersions)] {
		used, err := g.usedBy(ctx, m, b, kubernetes)
		images := slices.Concat(listed, unlistedImages(used, listed))
		switch {
		case err != nil:
			content.Problem = fmt.Sprintf("find the images of its objects with Kubernetes %q: %v", kubernetes, err)
		case !rendered:
			content.Images, rendered = images, true
		case !slices.Equal(images, content.Images):
			if content.Kubernetes == nil {
				content.Kubernetes = map[string][]string{}
			}
			content.Kubernetes[kubernetes] = images
		}
	}
	if len(versions) > maxKubernetesVersions && content.Problem == "" {
		content.Problem = fmt.Sprintf("its runtimes report %d Kubernetes versions: the images were found for the first %d "+
			"and are shown for all", len(versions), maxKubernetesVersions)
	}
	if names := m.UsedValues(); len(names) > 0 && m.Spec.Config != nil && content.Problem == "" {
		content.Problem = fmt.Sprintf("the chart uses values of the runtimes (%s), so the images can differ; the list "+
			"shows the images of at most %d runtimes as images of all runtimes", strings.Join(names, ", "), MaxBundlesTried)
	}
	return content
}
