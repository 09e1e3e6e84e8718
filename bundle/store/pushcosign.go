package store

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// PushCosign makes the signature a referrer in the runtime's repository. It comes before the bundle it signs
// (PushBundle), so that whoever asks finds no bundle without its signature; a referrer may name what is not there yet.
func PushCosign(ctx context.Context, place Store, runtime string, signature bundle.CosignSignature) error {
	name := bundle.DesiredRepository(runtime)
	repository, err := place.Repository(ctx, name)
	if err != nil {
		return err
	}
	for _, blob := range []bundle.Blob{bundle.EmptyBlob(), signature.Signature, signature.Manifest} {
		if err := pushMissing(ctx, repository, blob); err != nil {
			return fmt.Errorf("attach signature in %s: %w", place.Name(name), err)
		}
	}
	return nil
}
