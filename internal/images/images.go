// Package images finds the container images in rendered objects and redirects them to mirrors. Its input is objects and
// rules. It changes the image references in the objects, and returns all images with their fields. Digests are kept.
// Values that are not image references are not changed.
package images

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Rewriting contains the rules for image references. Localized references take precedence over mirrors.
type Rewriting struct {
	// Localized contains references from Manifest.spec.localizedImages. They replace references with the same name
	// and tag.
	Localized []string
	// Mirrors maps a registry host, or host and path, to its mirror. The longest match wins.
	Mirrors map[string]string
	// Paths are fields of custom resources that contain images.
	Paths []bundle.ImagePath
}

// Use is one occurrence of an image: the image in one field of one object.
type Use struct {
	// Object is the name of the object for messages. Field is the field path.
	Object, Field string
	// Image is the reference in the rendered object. Rewritten is the reference that the agent applies.
	Image, Rewritten string
}

// Rewrite changes images in objects in place and returns all images, in object and field order. After an error, some
// objects may be changed.
func Rewrite(objects []*unstructured.Unstructured, r Rewriting) ([]Use, error) {
	rules, err := newRules(r)
	if err != nil {
		return nil, err
	}
	var uses []Use
	for _, o := range objects {
		found, err := rules.rewriteObject(o)
		if err != nil {
			return nil, err
		}
		uses = append(uses, found...)
	}
	return uses, nil
}

// rules is a validated Rewriting.
type rules struct {
	localized []image
	mirrors   bundle.Settings
	paths     map[string][][]string // by group and kind
}

// image is a parsed image reference.
type image struct {
	text string
	// name includes the registry host, for example docker.io/library/nginx.
	name, tag, digest string
}

func parse(text string) (image, bool) {
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return image{}, false
	}
	found := image{text: text, name: named.Name()}
	if tagged, ok := named.(reference.Tagged); ok {
		found.tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		found.digest = digested.Digest().String()
	}
	return found, true
}

func (i image) baseName() string { return i.name[strings.LastIndex(i.name, "/")+1:] }

func (i image) String() string {
	text := i.name
	if i.tag != "" {
		text += ":" + i.tag
	}
	if i.digest != "" {
		text += "@" + i.digest
	}
	return text
}

func newRules(r Rewriting) (rules, error) {
	compiled := rules{mirrors: bundle.Settings{Mirrors: map[string]string{}}, paths: map[string][][]string{}}
	for _, text := range r.Localized {
		i, ok := parse(text)
		if !ok {
			return rules{}, fmt.Errorf("localized image %q is not an image reference", text)
		}
		compiled.localized = append(compiled.localized, i)
	}
	for from, to := range r.Mirrors {
		if _, ok := parse(to + "/image"); !ok || strings.Contains(to, "://") || strings.ContainsAny(to, "@") {
			return rules{}, fmt.Errorf("mirror of %s: %q: must be HOST or HOST/PATH without a scheme", from, to)
		}
		compiled.mirrors.Mirrors[bundle.CanonicalRegistry(from)] = strings.TrimSuffix(to, "/")
	}
	for _, p := range r.Paths {
		steps, err := p.Steps()
		if err != nil {
			return rules{}, fmt.Errorf("image path of %s: %w", p.Kind, err)
		}
		kind := p.Group + "/" + p.Kind
		compiled.paths[kind] = append(compiled.paths[kind], steps)
	}
	return compiled, nil
}

// rewrite returns the reference that replaces an image.
func (r rules) rewrite(text string) (string, error) {
	i, ok := parse(text)
	if !ok {
		return text, nil
	}
	localized, found, err := r.localize(i)
	if err != nil {
		return "", err
	}
	mirrored := r.mirrors.MirroredName(localized.name)
	if !found && mirrored == localized.name {
		return text, nil // unchanged, because String would expand short forms such as nginx
	}
	localized.name = mirrored
	return localized.String(), nil
}

// localize returns the localized image that replaces an image. Both must have the same last path element and tag, as
// in lifecycle-manager.
func (r rules) localize(i image) (image, bool, error) {
	if slices.ContainsFunc(r.localized,
		func(l image) bool { return l.name == i.name && l.tag == i.tag && l.digest == i.digest }) {
		return i, false, nil
	}
	var candidates []image
	for _, l := range r.localized {
		if l.baseName() == i.baseName() && l.tag == i.tag && (i.tag != "" || l.digest == i.digest) {
			candidates = append(candidates, l)
		}
	}
	best := closestMatches(i, candidates)
	switch {
	case len(best) == 0:
		return i, false, nil
	case len(best) > 1:
		return i, false,
			fmt.Errorf("image %s matches both %s and %s in the component's image list: list only one of them", i.text,
				best[0].text, best[1].text)
	case i.digest != "" && best[0].digest != "" && i.digest != best[0].digest:
		return i, false,
			fmt.Errorf("image %s has a different digest than %s in the component's image list", i.text, best[0].text)
	}
	chosen := best[0]
	if chosen.digest == "" {
		chosen.digest = i.digest
	}
	return chosen, true, nil
}

// closestMatches returns those candidates that share the most path elements with the image, counted from the end of the
// name. Of these, it prefers a candidate with the same name, because a proxy's name can end with the image's name.
func closestMatches(i image, candidates []image) []image {
	isSame := func(c image) bool { return c.name == i.name }
	if slices.ContainsFunc(candidates, isSame) {
		candidates = slices.DeleteFunc(candidates, func(c image) bool { return !isSame(c) })
	}
	common := func(c image) int {
		a, b := strings.Split(i.name, "/"), strings.Split(c.name, "/")
		n := 0
		for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
			n++
		}
		return n
	}
	var best []image
	longest := 0
	for _, c := range candidates {
		n := common(c)
		if n > longest {
			best, longest = nil, n
		}
		if n == longest && !slices.ContainsFunc(best, func(b image) bool { return b.String() == c.String() }) {
			best = append(best, c)
		}
	}
	return best
}

// UnlistedImages returns the used images that are not in a component's list of images. A used image without a digest
// counts as listed if the list contains its name and tag, with or without a digest.
func UnlistedImages(uses []Use, listed []string) []string {
	var strange []string
	for _, use := range uses {
		i, ok := parse(use.Image)
		if ok &&
			slices.ContainsFunc(listed, func(text string) bool { l, ok := parse(text); return ok && matchesImage(l, i) }) ||
			slices.Contains(strange, use.Image) {
			continue
		}
		strange = append(strange, use.Image)
	}
	return strange
}

// UnpinnedImages returns the images that the agent applies without a digest.
func UnpinnedImages(uses []Use) []string {
	var unpinned []string
	for _, use := range uses {
		if i, ok := parse(use.Rewritten); (!ok || i.digest == "") && !slices.Contains(unpinned, use.Image) {
			unpinned = append(unpinned, use.Image)
		}
	}
	return unpinned
}

// matchesImage reports whether a listed image matches a used image: both have the same last path element, and the same
// tag or digest.
func matchesImage(l, i image) bool {
	return l.baseName() == i.baseName() &&
		(i.tag != "" && l.tag == i.tag || i.digest != "" && l.digest == i.digest || i.tag == "" && i.digest == "" &&
			l.tag == "") &&
		(i.digest == "" || l.digest == "" || i.digest == l.digest)
}
