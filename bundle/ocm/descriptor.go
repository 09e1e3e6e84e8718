// Package ocm decodes, normalizes and verifies Open Component Model (OCM) component descriptors.
//
// The package does not access the network. Where the official OCM tools deviate from the OCM specification, the package
// behaves like the tools.
//
// Source: https://github.com/open-component-model/ocm-spec, doc/01-model and
// doc/04-extensions/03-storage-backends/oci.md.
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
)

// MaxDescriptorBytes limits the size of a component descriptor.
const MaxDescriptorBytes = 1 << 20

// Access types that the package supports, as returned by Access.Kind.
const (
	AccessLocalBlob   = "localBlob"
	AccessOCIArtifact = "ociArtifact"
	AccessOCIBlob     = "ociBlob"
	AccessRelativeOCI = "relativeOciReference"
	AccessHelm        = "helm"
	AccessNone        = "none"
)

var accessKinds = map[string]string{
	"relativeOciReference": AccessRelativeOCI, "RelativeOciReference": AccessRelativeOCI,
	"localBlob": AccessLocalBlob, "LocalBlob": AccessLocalBlob, "localOciBlob": AccessLocalBlob,
	"ociArtifact": AccessOCIArtifact, "ociRegistry": AccessOCIArtifact, "ociImage": AccessOCIArtifact,
	"OCIImage": AccessOCIArtifact, "OCIArtifact": AccessOCIArtifact,
	"ociBlob": AccessOCIBlob, "OCIImageLayer": AccessOCIBlob, "helm": AccessHelm, "Helm": AccessHelm,
	"none": AccessNone, "None": AccessNone,
}

// Kind returns the access type without its version. It replaces alternative names, such as ociRegistry, with the names
// of the constants above. It does not change unknown types.
func (a Access) Kind() string {
	kind, _, _ := strings.Cut(a.Type, "/")
	if known, ok := accessKinds[kind]; ok {
		return known
	}
	return kind
}

// Resource returns the resource with the given name. It returns false if the name does not exist or is not unique.
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

var componentName = regexp.MustCompile(
	`^[a-z][-a-z0-9]*([.][a-z][-a-z0-9]*)*[.][a-z]{2,}(/[a-z][-a-z0-9_]*([.][a-z][-a-z0-9_]*)*)+$`)

// CheckName returns an error for an invalid component name.
func CheckName(name string) error {
	if len(name) > 255 || !componentName.MatchString(name) {
		return fmt.Errorf("component name %q: must be DOMAIN/PATH such as kyma-project.io/module/keda", name)
	}
	return nil
}

// versionPattern matches a component version: a semantic version that can have a leading "v" and fewer than three
// numbers.
//
// Source: ocm-spec, doc/01-model/02-elements-toplevel.md, "Component Versions".
var versionPattern = regexp.MustCompile(
	`^v?(0|[1-9]\d*)(\.(0|[1-9]\d*)){0,2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// CheckVersion returns an error for an invalid component version.
func CheckVersion(v string) error {
	if len(Tag(v)) > 128 || !versionPattern.MatchString(v) {
		return fmt.Errorf("component version %q: must be a semantic version such as 1.2.3", v)
	}
	return nil
}

// Tag returns the OCI tag for a component version. It replaces the "+", which a tag cannot contain.
func Tag(version string) string { return strings.Replace(version, "+", ".build-", 1) }

const descriptorFile = "component-descriptor.yaml"

// FromTar returns the component descriptor in a tar. The tar must contain only the file component-descriptor.yaml.
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
		// Some tools write the file name with a leading "/" or "./".
		if header.Typeflag != tar.TypeReg ||
			!slices.Contains([]string{descriptorFile, "/" + descriptorFile, "./" + descriptorFile}, header.Name) {
			return nil, fmt.Errorf("descriptor layer: unexpected member %q, must contain only %s", header.Name,
				descriptorFile)
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
