// Package images finds the container images of rendered objects and redirects them. Inputs are objects and rules; the
// output is the same objects with other references, and a list of all images and their places. The package is pure. It
// changes nothing but references of images and keeps digests. A text that is not a reference stays: the API server
// decides about it.
package images

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Rewriting contains the rules for references. Localized references come first, then mirrors.
type Rewriting struct {
	// Localized are full references that replace those with the same name and tag: Manifest.spec.localizedImages.
	Localized []string
	// Mirrors maps a registry host, or host and path, to the place to read from. The longest that fits whole path elements
	// wins.
	Mirrors map[string]string
	// Paths are fields of custom resources that hold images.
	Paths []bundle.ImagePath
}

// Use is one image in one place.
type Use struct {
	// Object is the object as messages name it, Field the place in it.
	Object, Field string
	// Image is the reference as it was rendered, Rewritten as it is applied.
	Image, Rewritten string
}

// Rewrite changes the images of objects in place and returns all images, in the order of objects and fields. The error
// names the rule or the image. Objects may then be partly changed.
func Rewrite(objects []*unstructured.Unstructured, r Rewriting) ([]Use, error) {
	rules, err := compile(r)
	if err != nil {
		return nil, err
	}
	var uses []Use
	for _, o := range objects {
		found, err := rules.object(o)
		if err != nil {
			return nil, err
		}
		uses = append(uses, found...)
	}
	return uses, nil
}

// rules are a Rewriting that was checked.
type rules struct {
	localized []image
	mirrors   bundle.Settings
	paths     map[string][][]string // by group and kind
}

// image is a reference in its parts.
type image struct {
	text string
	// name is the whole name with its host, as "docker.io/library/nginx".
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

func (i image) base() string { return i.name[strings.LastIndex(i.name, "/")+1:] }

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

func compile(r Rewriting) (rules, error) {
	compiled := rules{mirrors: bundle.Settings{Mirrors: map[string]string{}}, paths: map[string][][]string{}}
	for _, text := range r.Localized {
		i, ok := parse(text)
		if !ok {
			return rules{}, fmt.Errorf("localized image %q: is not an image reference", text)
		}
		compiled.localized = append(compiled.localized, i)
	}
	for from, to := range r.Mirrors {
		if _, ok := parse(to + "/image"); !ok || strings.Contains(to, "://") || strings.ContainsAny(to, "@") {
			return rules{}, fmt.Errorf("mirror of %s: %q: want HOST or HOST/PATH without a scheme", from, to)
		}
		compiled.mirrors.Mirrors[bundle.OneName(from)] = strings.TrimSuffix(to, "/")
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
	mirrored := r.mirrors.Mirrored(localized.name)
	if !found && mirrored == localized.name {
		return text, nil // as it was written, short forms and all
	}
	localized.name = mirrored
	return localized.String(), nil
}

// localize returns the localized form of an image: the one with the same last path element and tag, by the rule of
// Kyma.
func (r rules) localize(i image) (image, bool, error) {
	if slices.ContainsFunc(r.localized,
		func(l image) bool { return l.name == i.name && l.tag == i.tag && l.digest == i.digest }) {
		return i, false, nil
	}
	var candidates []image
	for _, l := range r.localized {
		if l.base() == i.base() && l.tag == i.tag && (i.tag != "" || l.digest == i.digest) {
			candidates = append(candidates, l)
		}
	}
	best := closest(i, candidates)
	switch {
	case len(best) == 0:
		return i, false, nil
	case len(best) > 1:
		return i, false,
			fmt.Errorf("image %s: is localized as %s and as %s: list one", i.text, best[0].text, best[1].text)
	case i.digest != "" && best[0].digest != "" && i.digest != best[0].digest:
		return i, false, fmt.Errorf("image %s: the component lists %s, which is another", i.text, best[0].text)
	}
	chosen := best[0]
	if chosen.digest == "" {
		chosen.digest = i.digest
	}
	return chosen, true, nil
}

// closest keeps the candidates whose path ends most like the image's; equal references count once.
func closest(i image, candidates []image) []image {
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

// Unlisted returns the images in use that a component's list lacks, each once. A listed digest covers its name and tag.
func Unlisted(uses []Use, listed []string) []string {
	var strange []string
	for _, use := range uses {
		i, ok := parse(use.Image)
		if ok &&
			slices.ContainsFunc(listed, func(text string) bool { l, ok := parse(text); return ok && covers(l, i) }) ||
			slices.Contains(strange, use.Image) {
			continue
		}
		strange = append(strange, use.Image)
	}
	return strange
}

// covers reports whether a listed image is the used one, by the rule of localizing.
func covers(l, i image) bool {
	return l.base() == i.base() &&
		(i.tag != "" && l.tag == i.tag || i.digest != "" && l.digest == i.digest || i.tag == "" && i.digest == "" &&
			l.tag == "") &&
		(i.digest == "" || l.digest == "" || i.digest == l.digest)
}
