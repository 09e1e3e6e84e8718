// Package store reads and writes bundles, reports, roots of trust and module content.
//
// A Store contains a fleet's artifacts. Registry, Layout and Memory behave alike. The package does not verify
// signatures; package bundle does.
package store

import (
	"context"
	"fmt"
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
