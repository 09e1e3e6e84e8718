package pull

import (
	"context"
	"crypto"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
)

// SavedState identifies the saved state of an agent. Key is this agent's public key.
type SavedState struct {
	Client    client.Client
	Namespace string
	Runtime   string
	Key       crypto.PublicKey
}

// ReadBundle returns the last accepted bundle in a saved state, or nil before the first bundle. It does not need the
// agent's private key or the registry, and does not write. If the state is not signed with the key, the error is a
// *refusal.Error.
func ReadBundle(ctx context.Context, saved SavedState) (*bundle.Bundle, error) {
	p := &Puller{Options: Options{
		Client: saved.Client, Namespace: saved.Namespace, Preview: true,
		Store: contentstore.NewReader(saved.Client, saved.Namespace),
		Trust: bundle.Trust{Runtime: saved.Runtime},
	}}
	secret, err := p.readSecret(ctx)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	signed, _, err := checkSignature(saved.Key, secret.Data)
	if err != nil {
		return nil, err
	}
	if !signed {
		return nil, p.unsignedError()
	}
	if err := p.restoreBundle(ctx, secret.Data); err != nil {
		return nil, err
	}
	if message := p.LostMessage(); message != "" {
		return nil, fmt.Errorf("Secret %s/%s: %s", p.Namespace, StateSecret, message)
	}
	return p.current, nil
}
