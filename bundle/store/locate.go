package store

import (
	"context"
	"fmt"
	"strings"

	"oras.land/oras-go/v2"
)

// Locate opens a repository by its name in bundle.Content. "./NAME" is a repository in the store s. Any other name is a
// repository in a registry. If the function mirror is not nil, Locate opens the repository with the name that mirror
// returns.
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
