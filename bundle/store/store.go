// Package store reads and writes bundles, reports, roots of trust and module content.
//
// A Store contains one fleet's artifacts. The implementations Registry, Layout and Memory behave alike. The package
// does not verify signatures. Package bundle verifies them.
package store

import (
	"context"
	"fmt"
)

// Store contains OCI repositories below one location, such as a registry prefix or a folder.
type Store interface {
	// String returns the location in the format that Open parses.
	fmt.Stringer
	// Name returns the full name of a repository in the store, in the same format as bundle.Content.Repository.
	Name(repository string) string
	// Holds reports whether the store can read a repository. The name has the same format as bundle.Content.Repository.
	Holds(repository string) bool
	// Repository opens a repository in the store for reading and writing.
	Repository(ctx context.Context, name string) (ReadWriter, error)
	// Reading opens a repository in the store for reading.
	Reading(ctx context.Context, name string) (Reader, error)
}
