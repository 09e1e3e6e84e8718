package store

import (
	"context"
	"fmt"
	"strings"

	"oras.land/oras-go/v2"
)

// Locate opens a repository for reading as bundle.Content names it: "./NAME" is one of the store, everything else a
// registry's by its full name, which mirror (nil for none) may replace. Without a store (nil) there are only the
// latter.
func Locate(ctx context.Context, s Store, registries *Registries, name string, mirror func(string) string) (oras.ReadOnlyTarget, error) {
	relative, ok := strings.CutPrefix(name, "./")
	switch {
	case !ok && mirror != nil:
		return registries.Repository(mirror(name))
	case !ok:
		return registries.Repository(name)
	case s == nil:
		return nil, fmt.Errorf("repository %s is relative to the fleet's location: name that instead of one repository", name)
	}
	return s.Reading(ctx, relative)
}
