package command

import (
	"bytes"
	"context"
	"crypto"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// identitySecret contains the runtime's ID and the agent's public key. A user who can read it can verify the agent's
// signatures without permission to read the private key. The public key is in a Secret, because the agent's role and
// the protection policy cover Secrets with this prefix.
const (
	identitySecret = "skr-agent-identity"
	fieldPublic    = "agent.pub"
	fieldRuntime   = "runtime"
)

// writePublicIdentity writes the Secret with the agent's public identity if it changed.
func writePublicIdentity(ctx context.Context, uncached client.Client, runtimeID string, signer trust.Signer) error {
	public, err := trust.PublicKeyPEM(signer)
	if err != nil {
		return err
	}
	name := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: identitySecret}
	data := map[string][]byte{fieldRuntime: []byte(runtimeID), fieldPublic: public}
	var secret corev1.Secret
	err = uncached.Get(ctx, name, &secret)
	switch {
	case apierrors.IsNotFound(err):
		secret = corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Data: data,
		}
		err = uncached.Create(ctx, &secret)
	case err == nil && !maps.EqualFunc(secret.Data, data, bytes.Equal):
		secret.Data = data
		err = uncached.Update(ctx, &secret)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", name, err)
	}
	return nil
}

// readPublicIdentity returns the runtime's ID and the agent's public key.
func readPublicIdentity(ctx context.Context, reader client.Reader) (string, crypto.PublicKey, error) {
	name := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: identitySecret}
	var secret corev1.Secret
	if err := reader.Get(ctx, name, &secret); err != nil {
		return "", nil, fmt.Errorf("read Secret %s (the agent creates it at startup): %w", name, err)
	}
	key, err := trust.LoadPublicKey(secret.Data[fieldPublic])
	if err != nil {
		return "", nil, fmt.Errorf("Secret %s: %s: %w", name, fieldPublic, err)
	}
	return string(secret.Data[fieldRuntime]), key, nil
}
