package trust

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

// MediaTypeDescriptor is the media type of a component descriptor in the Release of a manifest.
const MediaTypeDescriptor = "application/vnd.kyma-pull.component-descriptor.v1+json"

const (
	// MaxReleaseDocuments limits the Release of a manifest.
	MaxReleaseDocuments = 250
	maxReleaseDepth     = 16
)

// HasReleaseKeys reports whether the root has release keys. Agents then install only components that release keys
// signed.
func (r Root) HasReleaseKeys() bool { return len(r.releases) > 0 }

// Released is the content of a component to install in a runtime.
type Released struct {
	Component, Version string
	// Contents are the blobs to install.
	Contents []ReleasedContent
	// Images are the references of the images to pull.
	Images []string
}

// ReleasedContent is one blob of a component: the name of its resource, and its digest.
type ReleasedContent struct {
	Name   string
	Digest digest.Digest
}

// CheckFloor refuses versions of a component below the root's minimum version.
func (r Root) CheckFloor(component, version string) error {
	floor, there := r.Floors[component]
	if !there {
		return nil
	}
	lowest, err := semver.NewVersion(floor)
	if err != nil {
		return fmt.Errorf("floor of component %s: %w", component, err)
	}
	actual, err := semver.NewVersion(version)
	if err != nil || actual.LessThan(lowest) {
		return fmt.Errorf("component %s:%s is older than %s, the minimum version in the root of trust",
			component, version, floor)
	}
	return nil
}

// CheckRelease checks that enough release keys signed a component's descriptor, and that it covers every content and
// image. documents contains the Release of the manifest by verified digest. Without release keys, it checks only the
// minimum version and returns an empty descriptor.
func (r Root) CheckRelease(
	released Released, documents map[digest.Digest][]byte, now time.Time,
) (ocm.Descriptor, error) {
	if err := r.CheckFloor(released.Component, released.Version); err != nil || !r.HasReleaseKeys() {
		return ocm.Descriptor{}, err
	}
	subject := fmt.Sprintf("component %s:%s", released.Component, released.Version)
	role, ok := r.releaseRole(released.Component)
	if !ok {
		return ocm.Descriptor{}, fmt.Errorf(
			"%s: no release key covers this component name: the root of trust has release keys for %q", subject,
			r.Releases())
	}
	evidence, err := readEvidence(documents)
	if err != nil {
		return ocm.Descriptor{}, fmt.Errorf("%s: %w", subject, err)
	}
	main, ok := evidence.descriptors[released.Component+":"+released.Version]
	if !ok {
		return ocm.Descriptor{}, fmt.Errorf("%s: the release proof does not contain its descriptor", subject)
	}
	if n := role.signed(main, now); n < role.threshold {
		return ocm.Descriptor{}, fmt.Errorf("%s is signed by %d of the release keys for %q, must be at least %d", subject,
			n, role.prefix+"*", role.threshold)
	}
	all, err := evidence.closure(main, 0, map[string]bool{})
	if err != nil {
		return ocm.Descriptor{}, fmt.Errorf("%s: %w", subject, err)
	}
	for _, content := range released.Contents {
		if err := evidence.covers(main, content); err != nil {
			return ocm.Descriptor{}, fmt.Errorf("%s: %w", subject, err)
		}
	}
	for _, image := range released.Images {
		if !slices.ContainsFunc(all,
			func(d ocm.Descriptor) bool { return slices.ContainsFunc(d.Resources, pins(image)) }) {
			return ocm.Descriptor{}, fmt.Errorf("%s: image %s was not released", subject, image)
		}
	}
	return main, nil
}

// releaseRole returns the role with the longest matching prefix.
func (r Root) releaseRole(component string) (releaseRole, bool) {
	best, found := releaseRole{}, false
	for _, role := range r.releases {
		if strings.HasPrefix(component, role.prefix) && (!found || len(role.prefix) > len(best.prefix)) {
			best, found = role, true
		}
	}
	return best, found
}

// signed counts the keys of the role that signed the descriptor.
func (r releaseRole) signed(d ocm.Descriptor, now time.Time) int {
	count := 0
	for _, key := range r.keys {
		trust := ocm.Trust{Keys: []*rsa.PublicKey{key}}
		if slices.ContainsFunc(d.Signatures,
			func(s ocm.Signature) bool { return d.CheckSignature(s, trust, now) == nil }) {
			count++
		}
	}
	return count
}

// evidence contains component descriptors and manifests of artifacts.
type evidence struct {
	descriptors map[string]ocm.Descriptor
	manifests   map[digest.Digest]ocispec.Manifest
}

func readEvidence(documents map[digest.Digest][]byte) (evidence, error) {
	found := evidence{map[string]ocm.Descriptor{}, map[digest.Digest]ocispec.Manifest{}}
	if len(documents) > MaxReleaseDocuments {
		return found, fmt.Errorf("the release proof has %d documents, must be at most %d", len(documents),
			MaxReleaseDocuments)
	}
	for d, data := range documents {
		var kind struct {
			MediaType string `json:"mediaType"`
		}
		if json.Unmarshal(data, &kind) == nil && kind.MediaType != "" {
			var manifest ocispec.Manifest
			if err := json.Unmarshal(data, &manifest); err != nil {
				return found, fmt.Errorf("manifest %s: %w", d, err)
			}
			found.manifests[d] = manifest
			continue
		}
		descriptor, err := ocm.Decode(data)
		if err != nil {
			return found, fmt.Errorf("document %s: %w", d, err)
		}
		name := descriptor.Name + ":" + descriptor.Version
		if _, twice := found.descriptors[name]; twice {
			return found, fmt.Errorf("duplicate descriptor of %s", name)
		}
		found.descriptors[name] = descriptor
	}
	return found, nil
}

// closure returns a descriptor and all referenced descriptors. It checks the digests of the references.
func (e evidence) closure(d ocm.Descriptor, depth int, seen map[string]bool) ([]ocm.Descriptor, error) {
	if depth > maxReleaseDepth {
		return nil, fmt.Errorf("references are nested deeper than %d levels", maxReleaseDepth)
	}
	name := d.Name + ":" + d.Version
	if seen[name] {
		return nil, nil
	}
	seen[name] = true
	all := []ocm.Descriptor{d}
	for _, reference := range d.References {
		target, ok := e.descriptors[reference.Component+":"+reference.Version]
		if !ok || !reference.Digest.Covered() {
			return nil,
				fmt.Errorf(
					"reference %q: component %s:%s has no signed digest, or is missing from the release proof",
					reference.Name, reference.Component, reference.Version)
		}
		actual, err := ocm.DigestOf(target, reference.Digest.NormalisationAlgorithm, reference.Digest.HashAlgorithm)
		if err != nil || !strings.EqualFold(actual, reference.Digest.Value) {
			return nil,
				errors.Join(fmt.Errorf("reference %q: component %s:%s does not match the released digest",
					reference.Name, reference.Component, reference.Version), err)
		}
		below, err := e.closure(target, depth+1, seen)
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

func (e evidence) covers(d ocm.Descriptor, content ReleasedContent) error {
	for _, resource := range d.Resources {
		if resource.Name != content.Name || !isSigned(resource) {
			continue
		}
		if !resource.Digest.OfArtifact() {
			if strings.EqualFold(resource.Digest.Value, content.Digest.Encoded()) &&
				content.Digest.Algorithm() == digest.SHA256 && resource.Digest.IsSHA256() {
				return nil
			}
			continue
		}
		for manifest, found := range e.manifests {
			leads := func(layer ocispec.Descriptor) bool { return layer.Digest == content.Digest }
			if ocm.CheckArtifact(resource, manifest) == nil && slices.ContainsFunc(found.Layers, leads) {
				return nil
			}
		}
	}
	return fmt.Errorf("content %q (%s) was not released", content.Name, content.Digest)
}

// The signed form of a resource without access has no digest.
func isSigned(r ocm.Resource) bool { return r.Digest.Covered() && r.Access.Kind() != ocm.AccessNone }

// pins returns a function that reports whether a resource has the name, version and digest of an image.
func pins(image string) func(ocm.Resource) bool {
	reference, pinned, _ := strings.Cut(image, "@")
	named := reference[strings.LastIndex(reference, "/")+1:]
	return func(r ocm.Resource) bool {
		return r.IsImage() && isSigned(r) && named == r.Name+":"+r.Version &&
			ocm.CheckArtifact(r, digest.Digest(pinned)) == nil
	}
}
