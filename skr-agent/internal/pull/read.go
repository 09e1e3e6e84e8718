package pull

import (
	"context"
	"crypto"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
)

// Saved identifies the saved state of an agent. Key is the public key of this agent.
type Saved struct {
	Client    client.Client
	Namespace string
	Runtime   string
	Key       crypto.PublicKey
}

// Read returns the last accepted bundle in a saved state, or nil before the first bundle. It does not need the agent's
// private key or the registry, and does not write. If the state is not signed with the key, the error is a
// *refusal.Error.
func Read(ctx context.Context, from Saved) (*bundle.Bundle, error) {
	p := &Puller{Options: Options{
		Client: from.Client, Namespace: from.Namespace, Preview: true,
		Store: contentstore.New(from.Client, from.Client, from.Namespace),
		Trust: bundle.Trust{Runtime: from.Runtime},
	}}
	secret, err := p.saved(ctx)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	signed, _, err := checkSeal(from.Key, secret.Data)
	if err != nil {
		return nil, err
	}
	if !signed {
		return nil, p.unsigned()
	}
	if err := p.restoreBundle(ctx, secret.Data); err != nil {
		return nil, err
	}
	if message := p.Lost(); message != "" {
		return nil, fmt.Errorf("Secret %s/%s: %s", p.Namespace, StateSecret, message)
	}
	return p.current, nil
}
