package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent"
)

// The agent's Secrets. An operator applies the bootstrap Secret. The agent creates the others.
const (
	bootstrapSecret = agent.BootstrapSecret
	keySecret       = "skr-agent-key"
	fieldKey        = "agent.key"
	// ageSecret contains the age identity that decrypts the runtime's sealed Secrets. If an operator deletes it, the
	// agent creates another identity.
	ageSecret     = "skr-agent-age"
	fieldIdentity = "identity.txt"
)

// bootstrap contains the settings from the flags and the bootstrap Secret.
type bootstrap struct {
	root     trust.Root
	location string
	runtime  string
	token    *trust.Token
	// assigned is the Kyma in the bootstrap Secret. allowsMove is true if this Secret allows a move to another control
	// plane.
	assigned   bundle.Assigned
	allowsMove bool
	// notifications is the URL of the publisher's notification server. It is empty if none is configured.
	notifications string
	// access contains the registry's credentials and certificates. It disables retries, because the agent has its own
	// backoff.
	access store.Access
	// secret is the bootstrap Secret's data. It is nil if the Secret does not exist.
	secret map[string][]byte
}

// readBootstrap reads settings from flags. Settings without a flag come from the bootstrap Secret.
func readBootstrap(ctx context.Context, reader client.Reader, f *runFlags) (bootstrap, error) {
	var secret corev1.Secret
	err := reader.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: bootstrapSecret}, &secret)
	if client.IgnoreNotFound(err) != nil {
		return bootstrap{}, fmt.Errorf("read Secret %s/%s: %w", v1beta2.RuntimeNamespace, bootstrapSecret, err)
	}
	b := bootstrap{location: f.location, runtime: f.runtime, secret: secret.Data}
	if b.location == "" {
		b.location = string(secret.Data["location"])
	}
	if b.runtime == "" {
		b.runtime = string(secret.Data["runtime"])
	}
	b.notifications = cmp.Or(f.notifications, string(secret.Data["notifications"]))
	b.access = store.Access{
		NoRetry:      true,
		DockerConfig: secret.Data[corev1.DockerConfigJsonKey],
		CA:           secret.Data["ca.crt"],
	}
	root := secret.Data["root.json"]
	if f.trust != "" {
		if root, err = os.ReadFile(f.trust); err != nil {
			return b, cli.Usage(fmt.Errorf("--trust: %w", err))
		}
	}
	if len(root) == 0 || b.location == "" || b.runtime == "" {
		return b, cli.Usage(
			fmt.Errorf(
				"root of trust, location and runtime are required: apply the Secret that `kcp-publisher enroll` " +
					"prints, or set --trust, --location and --runtime",
			),
		)
	}
	if err := trust.CheckRuntimeID(b.runtime); err != nil {
		return b, cli.Usage(err)
	}
	if b.root, err = trust.ParseRoot(root); err != nil {
		return b, err
	}
	if text := secret.Data["token"]; len(text) > 0 {
		token, err := trust.ParseToken(string(text))
		if err != nil {
			return b, fmt.Errorf("Secret %s/%s: token: %w", v1beta2.RuntimeNamespace, bootstrapSecret, err)
		}
		b.token = &token
	}
	if err := b.readAssigned(secret.Data); err != nil {
		return b, fmt.Errorf("Secret %s/%s: %w", v1beta2.RuntimeNamespace, bootstrapSecret, err)
	}
	return b, nil
}

// readAssigned reads the runtime's Kyma from the bootstrap Secret. Secrets from versions before 0.1.0 do not contain
// it.
func (b *bootstrap) readAssigned(data map[string][]byte) error {
	if len(data["kyma"]) == 0 || b.token == nil {
		return nil
	}
	kyma, err := trust.ParseKyma(string(data["kyma"]))
	if err != nil {
		return err
	}
	kyma.UID = string(data["kymaUID"])
	b.assigned = bundle.Assigned{Kyma: kyma, TokenExpires: b.token.Expires.Unix()}
	b.allowsMove = string(data["replace"]) == v1beta2.True
	return kyma.Check()
}

// hasChanged reports whether the bootstrap Secret changed. It returns an error for an unreadable or invalid
// Secret.
func (b *bootstrap) hasChanged(ctx context.Context, reader client.Reader, f *runFlags) (bool, error) {
	now, err := readBootstrap(ctx, reader, f)
	if err != nil {
		return false, err
	}
	return !maps.EqualFunc(now.secret, b.secret, bytes.Equal), nil
}

// ensureOwnKey returns the runtime's key. The first call creates the key.
func ensureOwnKey(ctx context.Context, uncached client.Client) (trust.Signer, error) {
	name := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: keySecret}
	key, err := ensureSecretField(ctx, uncached, name, fieldKey, trust.GenerateKey)
	if err != nil {
		return nil, err
	}
	signer, err := trust.LoadSigner(key)
	if err != nil {
		return nil, fmt.Errorf("Secret %s: %s: %w", name, fieldKey, err)
	}
	return signer, nil
}

// errInvalidKey means that the Secret with the agent's key exists but does not contain a key.
var errInvalidKey = errors.New("not a private key")

// readOwnKey reads the runtime's key. It returns nil if the agent has not created it yet.
func readOwnKey(ctx context.Context, reader client.Reader) (trust.Signer, error) {
	name := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: keySecret}
	var secret corev1.Secret
	err := reader.Get(ctx, name, &secret)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // a missing key is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	signer, err := trust.LoadSigner(secret.Data[fieldKey])
	if err != nil {
		return nil, fmt.Errorf("Secret %s: %s: %w: %w", name, fieldKey, errInvalidKey, err)
	}
	return signer, nil
}

// ensureOwnIdentity returns the identity that decrypts the runtime's Secrets. The first start creates it.
func ensureOwnIdentity(ctx context.Context, uncached client.Client) (*age.X25519Identity, error) {
	name := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: ageSecret}
	text, err := ensureSecretField(ctx, uncached, name, fieldIdentity, func() ([]byte, error) {
		identity, err := age.GenerateX25519Identity()
		if err != nil {
			return nil, err
		}
		return []byte(identity.String()), nil
	})
	if err != nil {
		return nil, err
	}
	identity, err := age.ParseX25519Identity(string(text))
	if err != nil {
		return nil,
			fmt.Errorf("Secret %s: %s is not an age identity; delete the Secret and restart the agent", name,
				fieldIdentity)
	}
	return identity, nil
}

// ensureSecretField returns the value of a field in an immutable Secret. If the Secret does not exist,
// ensureSecretField generates the value and creates the Secret.
func ensureSecretField(
	ctx context.Context, uncached client.Client, name client.ObjectKey, field string, generate func() ([]byte, error),
) ([]byte, error) {
	var secret corev1.Secret
	err := uncached.Get(ctx, name, &secret)
	if err == nil {
		return secret.Data[field], nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	data, err := generate()
	if err != nil {
		return nil, err
	}
	secret = corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Immutable:  new(true), Data: map[string][]byte{field: data},
	}
	if err := uncached.Create(ctx, &secret); err != nil {
		return nil, fmt.Errorf("create Secret %s: %w", name, err)
	}
	return data, nil
}

// clusterUID returns the UID of the kube-system namespace.
func clusterUID(ctx context.Context, reader client.Reader) (string, error) {
	var namespace corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &namespace); err != nil {
		return "", fmt.Errorf("read Namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}
