package store

import (
	"context"
	"fmt"
	"strings"

	"oras.land/oras-go/v2"
)

// Locate opens a repository for reading by its name in bundle.Content: "./NAME" is a repository of the store. Any other
// name is the full name of a registry's repository. If mirror is not nil, it returns the name from which that
// repository is read. If s is nil, "./NAME" is an error.
func Locate(
	ctx context.Context, s Store, registries *Registries, name string, mirror func(string) string,
) (oras.ReadOnlyTarget, error) {
	relative, ok := strings.CutPrefix(name, "./")
	switch {
	case !ok && mirror != nil:
		return registries.Repository(mirror(name))
	case !ok:
		return registries.Repository(name)
	case s == nil:
		return nil, fmt.Errorf(
			"repository %s is relative to the fleet's location: use that location instead of a single repository",
			name)
	}
	return s.Reading(ctx, relative)
}
