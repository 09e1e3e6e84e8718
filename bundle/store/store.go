// Package store reads and writes what package bundle defines: bundles, reports, roots of trust and module content.
//
// A Store is where a fleet's artifacts are kept. Registry, Layout and Memory are interchangeable: the same call does
// the same in each, and every function of this package takes any of them. What a store returns is not trusted; package
// bundle decides about it.
package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Store keeps OCI repositories below one location.
type Store interface {
	// String returns the location, as Open reads it.
	fmt.Stringer
	// Name returns the full name of a repository of the store, as it stands in bundle.Content.
	Name(repository string) string
	// Holds reports whether a repository, as it stands in bundle.Content, can be read where the store is.
	Holds(repository string) bool
	// Repository opens a repository of the store for reading and writing.
	Repository(ctx context.Context, name string) (ReadWriter, error)
	// Reading opens a repository of the store for reading, and changes nothing.
	Reading(ctx context.Context, name string) (Reader, error)
}

// Open returns the store of a location: "HOST/PATH" or "oci-layout:PATH". It does no I/O.
func Open(location string, registries *Registries) (Store, error) {
	if path, ok := strings.CutPrefix(location, LayoutScheme); ok {
		if path == "" {
			return nil, fmt.Errorf("location %q: name a folder after %s", location, LayoutScheme)
		}
		return NewLayout(path), nil
	}
	prefix := strings.Trim(location, "/")
	if _, err := registries.Repository(prefix + "/" + bundle.ContentRepository); err != nil || strings.Contains(location, "://") {
		return nil, fmt.Errorf("location %q: want HOST[:PORT]/PATH without a scheme, or %sPATH", location, LayoutScheme)
	}
	return &Registry{registries: registries, prefix: prefix}, nil
}

// IsLayout reports whether a store is a folder, which one process at a time may write.
func IsLayout(s Store) bool {
	_, layout := s.(*Layout)
	return layout
}
