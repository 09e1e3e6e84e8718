package takeover

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// finalizers are those that lifecycle-manager puts on its Manifests.
//
// Source: lifecycle-manager, internal/manifest/finalizer.
var finalizers = []string{v1beta2.FinalizerManifest, v1beta2.LifecycleManagerFinalizerResource, v1beta2.LifecycleManagerFinalizerLabels}

// RemoveManifest deletes one of lifecycle-manager's Manifests without uninstalling what it installed. In this order: it is skipped, its
// finalizers go, it is deleted. Lifecycle-manager would else put the finalizers back, or uninstall the module. One that is gone is no error.
func RemoveManifest(ctx context.Context, api client.Client, manifest *v1beta2.Manifest) error {
	before := manifest.DeepCopy()
	skip(manifest)
	for _, f := range finalizers {
		controllerutil.RemoveFinalizer(manifest, f)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := api.Patch(ctx, manifest, patch); err != nil {
		return ignoreGone("remove lifecycle-manager's finalizers of", manifest, err)
	}
	uid := manifest.UID
	if err := api.Delete(ctx, manifest, client.Preconditions{UID: &uid}); err != nil {
		return ignoreGone("delete", manifest, err)
	}
	if len(manifest.Finalizers) > 0 {
		return fmt.Errorf("Manifest %s/%s: is deleted and waits for a finalizer that is not lifecycle-manager's: %s",
			manifest.Namespace, manifest.Name, strings.Join(manifest.Finalizers, ", "))
	}
	return nil
}

// skip labels an object for lifecycle-manager to leave alone.
func skip(object client.Object) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
	object.SetLabels(labels)
}

func ignoreGone(verb string, object client.Object, err error) error {
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("%s %T %s/%s: %w", verb, object, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}
