package agent

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// watchOwnObjects watches the agent's Secrets, and the CRDs for the agent's kinds.
func (a *Agent) watchOwnObjects(ctx context.Context, client metadata.Interface, q queue) error {
	wake := func() { q.AddAfter(request, eventDelay) }
	crds := schema.GroupVersionResource{
		Group:    "apiextensions.k8s.io",
		Version:  "v1",
		Resource: "customresourcedefinitions",
	}
	for _, kind := range []string{"kymas", "manifests", "moduletemplates", "modulereleasemetas"} {
		definition := manager.Watched{Resource: crds, Name: kind + "." + v1beta2.Group}
		err := manager.WatchChanges(ctx, client, definition, func(*metav1.PartialObjectMetadata, bool) {
			a.changes.recordDefinition()
			wake()
		})
		if err != nil {
			return err
		}
	}
	return a.watchSecrets(ctx, client, wake)
}

// watchSecrets watches the Secrets in the agent's namespace. If the agent is not allowed to watch all of them, it
// watches only the bootstrap Secret and the Secrets with its state. In this case, it detects lost content only when a
// module needs the content.
func (a *Agent) watchSecrets(ctx context.Context, client metadata.Interface, wake func()) error {
	own := []string{BootstrapSecret, pull.StateSecret, objects.MemorySecret}
	names := []string{""}
	switch all, err := mayWatchSecrets(ctx, a.Uncached); {
	case err != nil:
		names = append(names, own...) // the permission is unknown; a refused watch has no effect
	case !all:
		names = own
	}
	for _, name := range names {
		secrets := manager.Watched{
			Resource:  corev1.SchemeGroupVersion.WithResource("secrets"),
			Namespace: v1beta2.RuntimeNamespace, Name: name,
		}
		err := manager.WatchChanges(ctx, client, secrets, func(secret *metav1.PartialObjectMetadata, deleted bool) {
			if secret.Name == BootstrapSecret && !deleted {
				a.enrolled.Store(true)
				wake()
			}
			if a.changes.recordSecret(secret, deleted) {
				wake()
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mayWatchSecrets reports whether the agent is allowed to list and watch all Secrets in its namespace.
func mayWatchSecrets(ctx context.Context, uncached client.Client) (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: v1beta2.RuntimeNamespace, Verb: verb, Resource: "secrets",
			},
		}}
		if err := uncached.Create(ctx, review); err != nil {
			return false, fmt.Errorf("review the permission to %s Secrets: %w", verb, err)
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}
