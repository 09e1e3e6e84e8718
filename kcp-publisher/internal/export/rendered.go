package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Rendering is a function that returns the references of the images that a module uses.
type Rendering func(context.Context, airgap.UsedRequest) ([]string, error)

const maxUsedImages = 1000

// usedImages caches the images that rendered modules use. The keys are digests of the renderer's input, because most
// modules have the same input in many runtimes. usedImages is safe for concurrent use.
type usedImages struct {
	mu    sync.Mutex // guards known
	known map[digest.Digest]renderResult
}

// renderResult contains the images of a rendered module, or the reason why it could not be rendered.
type renderResult struct {
	images []string
	err    error
}

func (u *usedImages) get(key digest.Digest) (renderResult, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known, ok := u.known[key]
	return known, ok
}

func (u *usedImages) put(key digest.Digest, result renderResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known == nil {
		u.known = map[digest.Digest]renderResult{}
	}
	u.known[key] = result
}

// addRendered adds the images that modules use but do not list.
func (g *gatherer) addRendered(
	ctx context.Context, needs []blobNeed, runtime string, b publishedBundle,
) ([]blobNeed, error) {
	kubernetes := g.KubernetesVersion
	if kubernetes == "" {
		var err error
		if kubernetes, err = g.kubernetes(ctx, runtime); err != nil {
			return nil, err
		}
	}
	inForce := len(b.State.All())
	for i, m := range g.exportedModules(b) {
		used, err := g.usedBy(ctx, m, b, kubernetes)
		if errors.As(err, new(notRenderedError)) && ctx.Err() == nil && i >= inForce {
			// For an offered module, only record the problem, because it must not prevent exporting installed modules.
			noted := g.modules[m.Module+" "+m.Version]
			noted.Rendered, noted.Problem = false, err.Error()
			continue
		}
		if err != nil {
			return nil,
				fmt.Errorf(
					"module %s: find the images of its objects: %w; --renderer=none exports only the images that "+
						"modules list", m.Module, err)
		}
		for _, text := range unlistedImages(used, m.Spec.LocalizedImages) {
			if needs, err = g.addImage(ctx, needs, target{runtime: runtime}, text, false); err != nil {
				return nil,
					fmt.Errorf(
						"module %s: its objects use an image that it does not list: %w; --renderer=none exports only the images that "+
							"modules list, --offers=false leaves out modules that are only offered", m.Module, err)
			}
		}
	}
	return needs, nil
}

type notRenderedError struct{ error }

func (e notRenderedError) Unwrap() error { return e.error }

// kubernetes returns the Kubernetes version in the runtime's last report, or "". It does not verify the report.
func (g *gatherer) kubernetes(ctx context.Context, runtime string) (string, error) {
	repository, err := g.Place.Reading(ctx, bundle.ReportRepository(runtime))
	if err != nil {
		return "", err
	}
	fetched, err := store.Fetch(ctx, repository, bundle.TagLatest)
	if errors.Is(err, store.ErrNotFound) || refusal.Of(err) != nil {
		return "", nil // a missing or refused report must not stop the export for other runtimes
	}
	if err != nil {
		return "", fmt.Errorf("read the report: %w", err)
	}
	report, _ := bundle.ClaimedReport(fetched) // after an error, the version is empty
	if _, err := version.ParseSemantic(report.KubernetesVersion); err != nil {
		return "", nil
	}
	return report.KubernetesVersion, nil
}

// usedBy renders a module and returns the image references in its objects.
func (g *gatherer) usedBy(ctx context.Context, m bundle.Manifest, b publishedBundle, version string) ([]string, error) {
	var source v1beta2.ImageSpec
	if err := json.Unmarshal(m.Spec.Install.Source.Raw, &source); err != nil {
		return nil, fmt.Errorf("spec.install.source: %w", err)
	}
	wanted := []string{source.Ref}
	if m.Spec.Config != nil {
		wanted = append(wanted, m.Spec.Config.Ref)
	}
	request := airgap.UsedRequest{Manifest: m, ImagePaths: b.State.Settings.ImagePaths,
		Values: b.Statement.Predicate.Values.SelectNames(m.UsedValues()), KubernetesVersion: version}
	asked, err := json.Marshal(request) // the cache key covers the content, because the manifest contains its digests
	if err != nil {
		return nil, err
	}
	key := digest.FromBytes(asked)
	if known, ok := g.usedImages.get(key); ok {
		return known.images, known.err
	}
	if known, ok := g.UsedCache.get(key); ok {
		g.usedImages.put(key, renderResult{images: known})
		return known, nil
	}
	request.Contents = map[digest.Digest][]byte{}
	for _, c := range m.Content {
		if !slices.Contains(wanted, c.Digest.String()) {
			continue
		}
		from, err := store.Locate(ctx, g.Place, g.Registries, c.Repository, nil)
		if err != nil {
			return nil, err
		}
		if request.Contents[c.Digest], err = store.FetchBlob(ctx, from, c.Descriptor(),
			bundle.MaxLayerBytes); err != nil {
			return nil, fmt.Errorf("content %s: %w", c.Name, err)
		}
	}
	used, err := g.Rendering(ctx, request)
	if err == nil && len(used) > maxUsedImages {
		err = fmt.Errorf("the module uses %d images, must be at most %d", len(used), maxUsedImages)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		g.usedImages.put(key, renderResult{err: notRenderedError{err}})
		return nil, notRenderedError{err}
	}
	g.usedImages.put(key, renderResult{images: used})
	g.UsedCache.put(key, used)
	return used, nil
}

// unlistedImages returns the used images that the component does not list, without invalid references.
func unlistedImages(used, listed []string) []string {
	known := map[string]bool{}
	for _, text := range listed {
		if name, ok := normalizeImage(text); ok {
			known[name] = true
		}
	}
	var missing []string
	for _, text := range used {
		if name, ok := normalizeImage(text); ok && !known[name] {
			missing = append(missing, text)
			known[name] = true
		}
	}
	return missing
}

func normalizeImage(text string) (string, bool) {
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return "", false
	}
	return reference.TagNameOnly(named).String(), true
}
