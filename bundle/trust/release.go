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

// MediaTypeDescriptor is the media type of a component descriptor in bundle.Manifest.Release.
const MediaTypeDescriptor = "application/vnd.kyma-pull.component-descriptor.v1+json"

const (
	// MaxReleaseDocuments limits the number of documents in bundle.Manifest.Release.
	MaxReleaseDocuments = 250
	maxReleaseDepth     = 16
)

// HasReleaseKeys reports whether the root of trust has release keys. If it does, agents install only components that
// were signed with release keys.
func (r Root) HasReleaseKeys() bool { return len(r.releases) > 0 }

// Released lists the parts of a component that the agent installs in a runtime.
type Released struct {
	Component, Version string
	// Contents are the content blobs that the agent installs.
	Contents []ReleasedContent
	// Images are the references to the container images that the module uses.
	Images []string
}

// ReleasedContent identifies one content blob. Name is the name of the resource in the component.
type ReleasedContent struct {
	Name   string
	Digest digest.Digest
}

// CheckFloor returns an error if the version is below the component's minimum version in the root of trust.
func (r Root) CheckFloor(component, version string) error {
	floor, there := r.Floors[component]
	if !there {
		return nil
	}
	lowest, err := semver.NewVersion(floor)
	if err != nil {
		return fmt.Errorf("minimum version of component %s: %w", component, err)
	}
	actual, err := semver.NewVersion(version)
	if err != nil || actual.LessThan(lowest) {
		return fmt.Errorf("component %s:%s is older than %s, the minimum version in the root of trust",
			component, version, floor)
	}
	return nil
}

// CheckRelease checks that enough release keys signed a component's descriptor. It also checks that this descriptor, or
// a descriptor that it references, contains all content and images in released. The map documents contains the blobs
// that the field Release of the module's bundle.Manifest lists. If the root of trust has no release keys, CheckRelease
// checks only the minimum version and returns an empty descriptor.
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
	if n := role.countSignatures(main, now); n < role.threshold {
		return ocm.Descriptor{}, fmt.Errorf("%s is signed by %d of the release keys for %q, must be at least %d", subject,
			n, role.prefix+"*", role.threshold)
	}
	all, err := evidence.collectReferences(main, 0, map[string]bool{})
	if err != nil {
		return ocm.Descriptor{}, fmt.Errorf("%s: %w", subject, err)
	}
	for _, content := range released.Contents {
		if err := evidence.checkContent(main, content); err != nil {
			return ocm.Descriptor{}, fmt.Errorf("%s: %w", subject, err)
		}
	}
	for _, image := range released.Images {
		if !slices.ContainsFunc(all,
			func(d ocm.Descriptor) bool { return slices.ContainsFunc(d.Resources, matchesImage(image)) }) {
			return ocm.Descriptor{}, fmt.Errorf("%s: image %s is not part of the release", subject, image)
		}
	}
	return main, nil
}

// releaseRole returns the release role whose prefix matches the component name. If several prefixes match, it returns
// the role with the longest prefix.
func (r Root) releaseRole(component string) (releaseRole, bool) {
	best, found := releaseRole{}, false
	for _, role := range r.releases {
		if strings.HasPrefix(component, role.prefix) && (!found || len(role.prefix) > len(best.prefix)) {
			best, found = role, true
		}
	}
	return best, found
}

// countSignatures returns the number of the role's keys that signed the descriptor.
func (r releaseRole) countSignatures(d ocm.Descriptor, now time.Time) int {
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

// releaseEvidence contains the documents that prove a release: component descriptors, by NAME:VERSION, and manifests of
// OCI artifacts.
type releaseEvidence struct {
	descriptors map[string]ocm.Descriptor
	manifests   map[digest.Digest]ocispec.Manifest
}

func readEvidence(documents map[digest.Digest][]byte) (releaseEvidence, error) {
	found := releaseEvidence{map[string]ocm.Descriptor{}, map[digest.Digest]ocispec.Manifest{}}
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

// collectReferences returns d and all descriptors that d refers to, directly or indirectly. It returns an error if a
// descriptor is missing or does not match the digest in the reference.
func (e releaseEvidence) collectReferences(
	d ocm.Descriptor, depth int, seen map[string]bool,
) ([]ocm.Descriptor, error) {
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
		if !ok || !reference.Digest.IsCovered() {
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
		below, err := e.collectReferences(target, depth+1, seen)
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

func (e releaseEvidence) checkContent(d ocm.Descriptor, content ReleasedContent) error {
	for _, resource := range d.Resources {
		if resource.Name != content.Name || !isSigned(resource) {
			continue
		}
		if !resource.Digest.IsArtifactDigest() {
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
	return fmt.Errorf("content %q (%s) is not part of the release", content.Name, content.Digest)
}

// isSigned reports whether the component's signature covers the content of a resource. It does not cover the content of
// a resource with the access type "none".
func isSigned(r ocm.Resource) bool { return r.Digest.IsCovered() && r.Access.Kind() != ocm.AccessNone }

// matchesImage returns a function that reports whether a resource has the name, version and digest in an image
// reference.
func matchesImage(image string) func(ocm.Resource) bool {
	reference, pinned, _ := strings.Cut(image, "@")
	named := reference[strings.LastIndex(reference, "/")+1:]
	return func(r ocm.Resource) bool {
		return r.IsImage() && isSigned(r) && named == r.Name+":"+r.Version &&
			ocm.CheckArtifact(r, digest.Digest(pinned)) == nil
	}
}
