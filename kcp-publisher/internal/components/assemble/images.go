package assemble

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/internal/images"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
)

// imageResource returns the component resource for an image. The resource's name is the image reference's last path
// element. The resource's version is the tag, if the tag is a valid version.
func imageResource(image string, known digest.Digest) (ocm.Resource, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ocm.Resource{}, err
	}
	resource := ocm.Resource{
		Type: "ociImage", Relation: "external", Access: ocm.Access{Type: ocm.AccessOCIArtifact, ImageReference: image},
	}
	resource.Name = named.Name()[strings.LastIndex(named.Name(), "/")+1:]
	tag := "latest"
	if tagged, ok := named.(reference.Tagged); ok {
		tag = tagged.Tag()
	}
	if resource.Version = tag; ocm.CheckVersion(tag) != nil {
		resource.Version = "0.0.0-" + strings.Map(replaceRune, tag)
	}
	if pinned, ok := named.(reference.Digested); ok {
		known = pinned.Digest()
	}
	if known == "" {
		return resource, nil
	}
	if known.Algorithm() != digest.SHA256 {
		return resource, fmt.Errorf("digest %s: must be a sha256 digest", known)
	}
	resource.Digest = &ocm.Digest{
		HashAlgorithm: "SHA-256", NormalisationAlgorithm: "ociArtifactDigest/v1", Value: known.Encoded(),
	}
	return resource, nil
}

// replaceRune replaces characters that a semver prerelease does not allow.
func replaceRune(r rune) rune {
	if r == '_' {
		return '-'
	}
	return r
}

func addExtraIdentities(resources []ocm.Resource) {
	seen := map[string]int{}
	for i := range resources {
		key := resources[i].Name + ":" + resources[i].Version
		if seen[key]++; seen[key] > 1 {
			resources[i].ExtraIdentity = map[string]string{
				"image": strings.TrimSuffix(resources[i].Access.ImageReference, ":"+resources[i].Version),
			}
		}
	}
}

// UnpinnedImages returns the component's images without a digest.
func (c *Component) UnpinnedImages() (images []string) {
	for _, r := range c.Descriptor.Resources {
		if r.IsImage() && !r.Digest.IsCovered() {
			images = append(images, r.Access.ImageReference)
		}
	}
	return images
}

// ignoredImages returns the images that agents ignore if they require a signature. It omits images that have a digest
// in the objects, because agents use this digest.
func (c *Component) ignoredImages(objects []*unstructured.Unstructured) (ignored []string, err error) {
	used, err := usedImages(objects)
	if err != nil {
		return nil, err
	}
	for _, r := range c.Descriptor.Resources {
		image := r.Access.ImageReference
		alone := component.Component{Descriptor: ocm.Descriptor{Resources: []ocm.Resource{r}}}
		isPinned := strings.Contains(image, "@") && slices.Contains(used, image)
		if r.IsImage() && !isPinned && len(component.Images([]component.Component{alone}, true)) == 0 {
			ignored = append(ignored, image)
		}
	}
	return ignored, nil
}

// PreferPinned returns the images without duplicates, sorted. It omits an image without a digest if the list also
// contains the same name and tag with a digest. Otherwise, agents would use the image without its digest.
func PreferPinned(images []string) []string {
	pinned := map[string]bool{}
	for _, image := range images {
		if tagged, digested := taggedName(image); digested {
			pinned[tagged] = true
		}
	}
	kept := slices.DeleteFunc(slices.Clone(images), func(image string) bool {
		tagged, digested := taggedName(image)
		return tagged != "" && !digested && pinned[tagged]
	})
	slices.Sort(kept)
	return slices.Compact(kept)
}

// taggedName returns an image's name and tag, and whether the image also has a digest. The name is empty for an image
// without a tag.
func taggedName(image string) (name string, digested bool) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", false
	}
	tagged, ok := named.(reference.Tagged)
	if !ok {
		return "", false
	}
	_, digested = named.(reference.Digested)
	return named.Name() + ":" + tagged.Tag(), digested
}

// CheckImages returns an error if agents cannot map each image in the objects to one of the component's images, for
// example because the component lists two digests for the same tag.
func (c *Component) CheckImages(objects []*unstructured.Unstructured) error {
	listed := component.Images([]component.Component{{Descriptor: c.Descriptor}}, false)
	_, err := findUses(objects, listed)
	return err
}

// usedImages returns the images that an agent without image paths for custom resources finds in the objects.
func usedImages(objects []*unstructured.Unstructured) ([]string, error) {
	uses, err := findUses(objects, nil)
	found := make([]string, 0, len(uses))
	for _, use := range uses {
		found = append(found, use.Image)
	}
	slices.Sort(found)
	return slices.Compact(found), err
}

func findUses(objects []*unstructured.Unstructured, listed []string) ([]images.Use, error) {
	copies := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		copies[i] = o.DeepCopy()
	}
	return images.Rewrite(copies, images.Rewriting{Localized: listed})
}
