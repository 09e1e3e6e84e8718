package store

import (
	"fmt"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// OCIScheme is an optional prefix of a location HOST/PATH, as in Helm and Flux.
const OCIScheme = "oci://"

// Open returns the store for a location: "HOST/PATH" with an optional "oci://" prefix, or "oci-layout:PATH". It does no
// I/O.
func Open(location string, registries *Registries) (Store, error) {
	if path, ok := strings.CutPrefix(location, LayoutScheme); ok {
		if path == "" {
			return nil, fmt.Errorf("location %q: add the path of a folder after %s", location, LayoutScheme)
		}
		return NewLayout(path), nil
	}
	prefix := strings.TrimSuffix(strings.TrimPrefix(location, OCIScheme), "/")
	if strings.Contains(prefix, "://") {
		return nil,
			fmt.Errorf("location %q: only %s is accepted as a scheme: must be HOST[:PORT]/PATH or %sPATH", location,
				OCIScheme, LayoutScheme)
	}
	if LooksLikeFolder(prefix) {
		return nil, fmt.Errorf("location %q is a folder: use %s%s, or a registry as HOST.DOMAIN/PATH or HOST:PORT/PATH",
			location, LayoutScheme, location)
	}
	if _, err := registries.Repository(prefix + "/" + bundle.ContentRepository); err != nil {
		return nil, fmt.Errorf("location %q: must be HOST[:PORT]/PATH%s or %sPATH", location, pathProblem(prefix),
			LayoutScheme)
	}
	return &Registry{registries: registries, prefix: prefix}, nil
}

// pathProblem returns the rule that the path of a registry location violates, or "" if the path is not the problem.
func pathProblem(prefix string) string {
	_, path, _ := strings.Cut(prefix, "/")
	switch {
	case strings.ContainsAny(path, ":@"):
		return " without a tag or digest,"
	case path != strings.ToLower(path):
		return " with a lowercase PATH,"
	}
	return ""
}

// LooksLikeFolder reports whether a location without a scheme is a path and not a registry. The first element of a
// registry location is localhost, or contains a dot or a port. A path starts with "/", "." or "~", or is a plain name.
func LooksLikeFolder(location string) bool {
	host, _, _ := strings.Cut(location, "/")
	switch {
	case location == "":
		return false
	case host == "", host[0] == '.', host[0] == '~':
		return true
	}
	return host != "localhost" && !strings.ContainsAny(host, ".:[")
}

// IsLayout reports whether a store is an OCI layout.
func IsLayout(s Store) bool {
	_, layout := s.(*Layout)
	return layout
}
