package component

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

const (
	maxDepth        = 16
	maxComponents   = 200
	maxClosureBytes = 16 << 20
)

// Closure returns a component version and all versions that it references, directly or indirectly. The caller must
// check the references' digests.
func (r *Reader) Closure(ctx context.Context, c Component) ([]Component, error) {
	closures, _ := ctx.Value(closuresKey{}).(map[string][]Component)
	key := c.Descriptor.Name + ":" + c.Descriptor.Version + "@" + c.Manifest.Digest.String()
	if all, known := closures[key]; known {
		return all, nil
	}
	w := walk{reader: r, seen: map[string]bool{}}
	if err := w.visit(ctx, c, nil); err != nil {
		return nil, fmt.Errorf("component %s:%s: %w", c.Descriptor.Name, c.Descriptor.Version, err)
	}
	if closures != nil {
		closures[key] = w.found
	}
	return w.found, nil
}

// closuresKey is the context key for the results of Closure during a check.
type closuresKey struct{}

// withClosures returns a context in which Closure follows the references of a component once. A check and the pins
// after it then use the same manifests. Otherwise, a registry could replace a reference in between.
func withClosures(ctx context.Context) context.Context {
	return context.WithValue(ctx, closuresKey{}, map[string][]Component{})
}

type walk struct {
	reader *Reader
	found  []Component
	seen   map[string]bool
	bytes  int
}

func (w *walk) visit(ctx context.Context, c Component, path []string) error {
	name := c.Descriptor.Name + ":" + c.Descriptor.Version
	if slices.Contains(path, name) {
		return fmt.Errorf("references form a cycle: %s", strings.Join(append(path, name), " → "))
	}
	if w.seen[name] {
		return nil
	}
	path = append(path[:len(path):len(path)], name)
	if len(path) > maxDepth {
		return fmt.Errorf("references are nested deeper than %d levels: %s", maxDepth, strings.Join(path, " → "))
	}
	if len(w.found) == maxComponents {
		return fmt.Errorf("more than %d components are referenced", maxComponents)
	}
	if w.bytes += c.memoryBytes; w.bytes > maxClosureBytes {
		return fmt.Errorf("the component and its references need more than %d MiB: use smaller descriptors",
			maxClosureBytes>>20)
	}
	w.seen[name] = true
	w.found = append(w.found, c)
	for _, reference := range c.Descriptor.References {
		next, err := w.reader.lookup(ctx, reference.Component, reference.Version)
		if err != nil {
			return fmt.Errorf("reference %q: %w", reference.Name, err)
		}
		if err := w.visit(ctx, next, path); err != nil {
			return err
		}
	}
	return nil
}

// Images returns the references to all images in components, sorted and without duplicates. If the component contains
// the digest of an image, the reference includes it.
//
// If signed is true, Images omits images with a location that does not end with the resource's name and version.
// Signatures do not cover locations, so a changed location could otherwise replace one image with another.
func Images(components []Component, signed bool) []string {
	var images []string
	for _, c := range components {
		for _, r := range c.Descriptor.Resources {
			if image := c.image(r); image != "" && (!signed || namesItself(r)) {
				images = append(images, image)
			}
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// namesItself reports whether the resource's image reference ends with the resource's name and version.
func namesItself(r ocm.Resource) bool {
	reference, _, _ := strings.Cut(r.Access.ImageReference, "@")
	return reference[strings.LastIndex(reference, "/")+1:] == r.Name+":"+r.Version
}

// image returns an image resource's reference with its digest. It returns "" for other resources and for images that
// are not in a registry.
func (c Component) image(r ocm.Resource) string {
	if !r.IsImage() {
		return ""
	}
	reference := r.Access.ImageReference
	switch r.Access.Kind() {
	case ocm.AccessOCIArtifact:
	case ocm.AccessRelativeOCI:
		host, ok := c.registryHost()
		if !ok {
			return ""
		}
		reference = host + "/" + reference
	default:
		return ""
	}
	if d := r.Digest; d.IsArtifactDigest() {
		name, _, _ := strings.Cut(reference, "@")
		return name + "@" + strings.ToLower(strings.ReplaceAll(d.HashAlgorithm, "-", "")) + ":" + d.Value
	}
	return reference
}
