// Package ocm is the pure part of the Open Component Model: component descriptors, names and versions.
//
// Bytes go in, values and errors come out; nothing here fetches anything. It reads what the official tools write, to the
// letter of the OCM specification and, where that and the tools disagree, what the tools do.
//
// Source: https://github.com/open-component-model/ocm-spec, doc/01-model and doc/04-extensions/03-storage-backends/oci.md.
package ocm

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

// MaxDescriptorBytes bounds a component descriptor; those of Kyma's modules have 4 KiB on average.
const MaxDescriptorBytes = 1 << 20

// maxResources bounds the resources of a component; the largest known have some hundred.
const maxResources = 2_000

// Kinds of access, in one spelling. Others are read and never fetched.
const (
	AccessLocalBlob   = "localBlob"
	AccessOCIArtifact = "ociArtifact"
	AccessOCIBlob     = "ociBlob"
	AccessRelativeOCI = "relativeOciReference"
	AccessHelm        = "helm"
	AccessNone        = "none"
)

var accessKinds = map[string]string{
	"localBlob": AccessLocalBlob, "LocalBlob": AccessLocalBlob, "localOciBlob": AccessLocalBlob,
	"ociArtifact": AccessOCIArtifact, "ociRegistry": AccessOCIArtifact, "ociImage": AccessOCIArtifact,
	"OCIImage": AccessOCIArtifact, "OCIArtifact": AccessOCIArtifact,
	"ociBlob": AccessOCIBlob, "OCIImageLayer": AccessOCIBlob, "helm": AccessHelm, "Helm": AccessHelm, "none": AccessNone, "None": AccessNone,
}

// Kind is the type in one spelling, without its version; an unknown one is given as it is.
func (a Access) Kind() string {
	kind, _, _ := strings.Cut(a.Type, "/")
	if known, ok := accessKinds[kind]; ok {
		return known
	}
	return kind
}

// Resource finds the resource of this name. Several of one name, told apart by version or extra identity, are none: a name
// alone does not say which is meant.
func (d Descriptor) Resource(name string) (Resource, bool) {
	var found Resource
	count := 0
	for _, r := range d.Resources {
		if r.Name == name {
			found = r
			count++
		}
	}
	if count != 1 {
		return Resource{}, false
	}
	return found, true
}

// descriptorV2 is the schema v2 as far as it is used. All scalars are strings: unquoted digits must stay what they are.
type descriptorV2 struct {
	Meta struct {
		SchemaVersion string `yaml:"schemaVersion"`
	} `yaml:"meta"`
	Component struct {
		Name      string       `yaml:"name"`
		Version   string       `yaml:"version"`
		Resources []resourceV2 `yaml:"resources"`
	} `yaml:"component"`
}

type resourceV2 struct {
	Name          string            `yaml:"name"`
	Version       string            `yaml:"version"`
	Type          string            `yaml:"type"`
	Relation      string            `yaml:"relation"`
	ExtraIdentity map[string]string `yaml:"extraIdentity"`
	Access        struct {
		Type           string `yaml:"type"`
		LocalReference string `yaml:"localReference"`
		Digest         string `yaml:"digest"`
		MediaType      string `yaml:"mediaType"`
		ImageReference string `yaml:"imageReference"`
	} `yaml:"access"`
}

var componentName = regexp.MustCompile(`^[a-z][-a-z0-9]*([.][a-z][-a-z0-9]*)*[.][a-z]{2,}(/[a-z][-a-z0-9_]*([.][a-z][-a-z0-9_]*)*)+$`)

// CheckName tells whether name can be a component's.
func CheckName(name string) error {
	if len(name) > 255 || !componentName.MatchString(name) {
		return fmt.Errorf("component name %q: want DOMAIN/PATH such as kyma-project.io/module/keda", name)
	}
	return nil
}

// version is semantic versioning as OCM relaxes it: a leading "v" and fewer than three numbers are allowed.
//
// Source: ocm-spec, doc/01-model/02-elements-toplevel.md, "Component Versions".
var version = regexp.MustCompile(`^v?(0|[1-9]\d*)(\.(0|[1-9]\d*)){0,2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// CheckVersion tells whether v can be a component's version. What passes is also a tag, once through Tag.
func CheckVersion(v string) error {
	if len(Tag(v)) > 128 || !version.MatchString(v) {
		return fmt.Errorf("component version %q: want a semantic version such as 1.2.3", v)
	}
	return nil
}

// Tag is a version as it stands in an OCI tag, which cannot hold a "+".
func Tag(version string) string { return strings.Replace(version, "+", ".build-", 1) }

// Decode reads a component descriptor of schema v2 in YAML or JSON. Errors name the field.
func Decode(data []byte) (Descriptor, error) {
	if len(data) > MaxDescriptorBytes {
		return Descriptor{}, fmt.Errorf("component descriptor: larger than %d bytes", MaxDescriptorBytes)
	}
	documents, err := strict.Documents(data, strict.Limits{Documents: 1})
	if err != nil {
		return Descriptor{}, fmt.Errorf("component descriptor: %w", err)
	}
	if len(documents) == 0 {
		return Descriptor{}, errors.New("component descriptor: is empty")
	}
	var v2 descriptorV2
	if err := documents[0].Decode(&v2); err != nil {
		return Descriptor{}, fmt.Errorf("component descriptor: %w", err)
	}
	if v2.Meta.SchemaVersion != "v2" {
		return Descriptor{}, fmt.Errorf("component descriptor: meta.schemaVersion: %q is not supported, want \"v2\"", v2.Meta.SchemaVersion)
	}
	if err := CheckName(v2.Component.Name); err != nil {
		return Descriptor{}, fmt.Errorf("component descriptor: component.name: %w", err)
	}
	if err := CheckVersion(v2.Component.Version); err != nil {
		return Descriptor{}, fmt.Errorf("component descriptor: component.version: %w", err)
	}
	descriptor := Descriptor{Name: v2.Component.Name, Version: v2.Component.Version}
	descriptor.Resources, err = resourcesOf(v2.Component.Resources)
	return descriptor, err
}

func resourcesOf(resources []resourceV2) ([]Resource, error) {
	if len(resources) > maxResources {
		return nil, fmt.Errorf("component descriptor: component.resources: %d, at most %d", len(resources), maxResources)
	}
	seen := map[string]bool{}
	out := make([]Resource, 0, len(resources))
	for i, r := range resources {
		field := fmt.Sprintf("component descriptor: component.resources[%d]", i)
		if r.Name == "" || r.Access.Type == "" {
			return nil, fmt.Errorf("%s: name and access.type are required", field)
		}
		identity := fmt.Sprint(r.Name, "\n", r.Version, "\n", r.ExtraIdentity)
		if seen[identity] {
			return nil, fmt.Errorf("%s.name: %q appears twice with the same version and identity", field, r.Name)
		}
		seen[identity] = true
		resource := Resource{Element: Element{Name: r.Name, Version: r.Version, ExtraIdentity: r.ExtraIdentity}, Type: r.Type, Relation: r.Relation,
			Access: Access{Type: r.Access.Type, MediaType: r.Access.MediaType, ImageReference: r.Access.ImageReference}}
		if resource.Access.Kind() == AccessLocalBlob {
			reference := r.Access.LocalReference
			if reference == "" {
				reference = r.Access.Digest
			}
			if _, err := digest.Parse(reference); err != nil {
				return nil, fmt.Errorf("%s.access.localReference: %q is not a digest", field, reference)
			}
			resource.Access.LocalReference = reference
		}
		out = append(out, resource)
	}
	return out, nil
}

const descriptorFile = "component-descriptor.yaml"

// FromTar takes the descriptor out of a descriptor layer in tar form: exactly one regular file of that name.
func FromTar(data []byte) ([]byte, error) {
	reader := tar.NewReader(bytes.NewReader(data))
	var found []byte
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("descriptor layer: %w", err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		// Some writers put a "/" or "./" before the name. Nothing else is tidied up: "x/../" is no honest writer's.
		if header.Typeflag != tar.TypeReg || !slices.Contains([]string{descriptorFile, "/" + descriptorFile, "./" + descriptorFile}, header.Name) {
			return nil, fmt.Errorf("descriptor layer: unexpected member %q, want %s alone", header.Name, descriptorFile)
		}
		if found != nil {
			return nil, fmt.Errorf("descriptor layer: %s appears twice", descriptorFile)
		}
		found, err = io.ReadAll(io.LimitReader(reader, MaxDescriptorBytes+1))
		if err != nil {
			return nil, fmt.Errorf("descriptor layer: %w", err)
		}
		if len(found) > MaxDescriptorBytes {
			return nil, fmt.Errorf("descriptor layer: %s is larger than %d bytes", descriptorFile, MaxDescriptorBytes)
		}
	}
	if found == nil {
		return nil, fmt.Errorf("descriptor layer: %s is missing", descriptorFile)
	}
	return found, nil
}
