package controller

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// newPullSecretCache returns a cache that contains only the image pull Secret, and needs permission to read only this
// Secret.
func newPullSecretCache(mgr ctrl.Manager, secret types.NamespacedName) (cache.Cache, error) {
	return newNamespaceCache(mgr, secret.Namespace, cache.Options{
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", secret.Name),
	})
}

func (k *Kymas) requestsForAll(ctx context.Context, _ *corev1.Secret) []ctrl.Request {
	kymas, err := k.Catalog.markKymas(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to find the Kymas for a changed image pull Secret")
		return nil
	}
	requests := make([]ctrl.Request, 0, len(kymas))
	for i := range kymas {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&kymas[i])})
	}
	return requests
}

// readPullSecret returns the image pull Secret, or nothing if none is configured. problem is the reason why the Secret
// cannot be published.
func (k *Kymas) readPullSecret(ctx context.Context) (secrets []corev1.Secret, problem, err error) {
	if k.pullSecrets == nil {
		return nil, nil, nil
	}
	secret := &corev1.Secret{}
	err = k.pullSecrets.Get(ctx, k.ImagePullSecret, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read image pull Secret %s: %w", k.ImagePullSecret, err)
	}
	if apierrors.IsNotFound(err) || !secret.DeletionTimestamp.IsZero() {
		return nil,
			reason.Errorf(reason.SecretMissing,
				"image pull Secret %s not found: create it, or run without --image-pull-secret", k.ImagePullSecret), nil
	}
	if secret.Type != corev1.SecretTypeDockerConfigJson && secret.Type != corev1.SecretTypeDockercfg {
		return nil,
			reason.Errorf(reason.SecretMissing, "image pull Secret %s has type %q, must be %s", k.ImagePullSecret,
				secret.Type, corev1.SecretTypeDockerConfigJson), nil
	}
	return []corev1.Secret{withoutMetadata(secret)}, nil, nil
}

// withoutMetadata returns a copy of the Secret without annotations and without the module label. These could assign the
// Secret to one module or change its name in the runtime.
func withoutMetadata(secret *corev1.Secret) corev1.Secret {
	shared := *secret
	shared.Labels, shared.Annotations = maps.Clone(secret.Labels), nil
	delete(shared.Labels, v1beta2.LabelModuleName)
	return shared
}
