package component

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

const descriptorsPath = "component-descriptors/"

// Source is a registry or an archive with OCM component versions.
type Source interface {
	// Open returns a component's OCI repository.
	Open(component string) (oras.ReadOnlyTarget, error)
	// Repository returns the full name of a component's repository if runtimes can read it, or "".
	Repository(component string) string
	String() string
}

// Mapping is a registry's rule that derives a repository name from a component name.
//
// Source: OCM's repository specification OCIRegistry, componentNameMapping.
type Mapping string

// These are the supported mappings.
const (
	MappingPath   Mapping = "urlPath"
	MappingDigest Mapping = "sha256-digest"
)

// Registry is a source in an OCI registry. The components are in repositories below a common path.
type Registry struct {
	Registries *store.Registries
	Prefix     string
	// Mapping defaults to MappingPath. If it is not set, a Reader also tries MappingDigest.
	Mapping Mapping
}

// Open returns the component's repository.
func (r Registry) Open(component string) (oras.ReadOnlyTarget, error) {
	return r.Registries.Repository(r.Repository(component))
}

// Repository returns the component's repository with its host.
func (r Registry) Repository(component string) string {
	prefix := strings.Trim(r.Prefix, "/") + "/"
	if r.Mapping == MappingDigest {
		sum := sha256.Sum256([]byte(component))
		return prefix + hex.EncodeToString(sum[:])
	}
	return prefix + descriptorsPath + component
}

func (r Registry) String() string { return r.Prefix }

func (r Registry) host() string {
	host, _, _ := strings.Cut(strings.Trim(r.Prefix, "/"), "/")
	return host
}
