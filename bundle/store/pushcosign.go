package store

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// PushCosign adds the signature as a referrer to the runtime's repository. Call it before PushBundle, so that no reader
// finds a bundle without its signature; the subject of a referrer does not have to exist.
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
