package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
)

// Repositories returns the repositories below the registry prefix of a store. It returns an error if the registry does
// not allow listing or lists none. Some registries omit repositories, so the caller must check that the list contains
// all known repositories.
func Repositories(ctx context.Context, s Store) ([]string, error) {
	r, ok := s.(*Registry)
	if !ok {
		return nil, fmt.Errorf("%s is not a registry", s)
	}
	whole, err := r.openRegistry()
	if err != nil {
		return nil, err
	}
	_, path, _ := strings.Cut(r.prefix, "/")
	var below names
	err = whole.Repositories(ctx, "", func(page []string) error {
		return below.add(page, func(name string) (string, bool) { return strings.CutPrefix(name, path+"/") })
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("list the repositories of %s: %w", s, err)
	case len(below.all) == 0:
		return nil,
			fmt.Errorf(
				"%s: the registry does not list repositories below this prefix: allow the credentials to list them "+
					"(/v2/_catalog)", s)
	}
	return below.all, nil
}

// Remove deletes a manifest with all its tags. It returns nil if the manifest does not exist.
func Remove(ctx context.Context, from ReadWriter, d ocispec.Descriptor) error {
	deleter, ok := from.(content.Deleter)
	if !ok {
		return fmt.Errorf("%T does not support deletion", from)
	}
	if r, ok := from.(*remote.Repository); ok {
		// Without this call, oras first reads the manifest, and fails if the manifest is too large or has a subject
		// that oras cannot read. A runtime could push a manifest of this kind as its report to prevent the report's
		// removal.
		_ = r.SetReferrersCapability(true)
	}
	err := deleter.Delete(ctx, d)
	if status, _ := StatusOf(err); status == http.StatusMethodNotAllowed {
		return fmt.Errorf(
			"the registry does not allow deletion: enable it (distribution: storage.delete.enabled): %w", err)
	}
	if err = NotFound(err); errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
