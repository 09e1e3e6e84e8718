// Package store reads and writes bundles, reports, roots of trust and module content.
//
// A Store contains a fleet's artifacts. Registry, Layout and Memory behave alike. The package does not verify
// signatures; package bundle does.
package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Store contains OCI repositories below one location.
type Store interface {
	// String returns the location in the form that Open parses.
	fmt.Stringer
	// Name returns the full name of a repository of the store, as in bundle.Content.
	Name(repository string) string
	// Holds reports whether the store can read a repository that is named as in bundle.Content.
	Holds(repository string) bool
	// Repository opens a repository of the store for reading and writing.
	Repository(ctx context.Context, name string) (ReadWriter, error)
	// Reading opens a repository of the store for reading.
	Reading(ctx context.Context, name string) (Reader, error)
}

// OCIScheme is an optional prefix of HOST/PATH, as in Helm and Flux.
const OCIScheme = "oci://"

// Open returns the store of a location: "HOST/PATH" with an optional "oci://" prefix, or "oci-layout:PATH". It does no
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
	if looksLikeFolder(prefix) {
		return nil, fmt.Errorf("location %q is a folder: use %s%s; a registry is HOST.DOMAIN/PATH or HOST:PORT/PATH",
			location, LayoutScheme, location)
	}
	if _, err := registries.Repository(prefix + "/" + bundle.ContentRepository); err != nil {
		return nil, fmt.Errorf("location %q: must be HOST[:PORT]/PATH or %sPATH", location, LayoutScheme)
	}
	return &Registry{registries: registries, prefix: prefix}, nil
}

// A registry's host has a dot or a port, or is localhost. A path begins with a slash, a dot or a tilde, or is a plain
// name.
func looksLikeFolder(location string) bool {
	host, _, _ := strings.Cut(location, "/")
	switch {
	case location == "":
		return false
	case host == "", host[0] == '.', host[0] == '~':
		return true
	}
	return host != "localhost" && !strings.ContainsAny(host, ".:[")
}

// IsLayout reports whether a store is a folder.
func IsLayout(s Store) bool {
	_, layout := s.(*Layout)
	return layout
}
