package install

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// applyTaking applies an object and takes over the fields that lifecycle-manager owns.
func (a *actor) applyTaking(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := a.applyObject(ctx, o)
	if err != nil {
		return nil, err
	}
	entries, err := takeover.TakenFields(live.GetManagedFields(), a.manager)
	if err != nil || len(entries) == 0 {
		return live, err
	}
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/metadata/managedFields", "value": entries}})
	if err != nil {
		return nil, err
	}
	if err := a.cluster.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return nil, fmt.Errorf("take over the fields of lifecycle-manager: %w", err)
	}
	return a.applyObject(ctx, o)
}

// adoptDefaultCR adds the module's labels and annotations to a default CR that lifecycle-manager created, so that
// watches select the CR. It does nothing if the account lacks the permission.
func (a *actor) adoptDefaultCR(ctx context.Context, live *metav1.PartialObjectMetadata, by guard.Owner) error {
	if by.Made(live) || !by.OwnsDefaultCR(live) {
		return nil
	}
	marks := &unstructured.Unstructured{Object: map[string]any{}}
	mark(marks, by)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.UID, "labels": marks.GetLabels(), "annotations": marks.GetAnnotations(),
	}})
	if err != nil {
		return err
	}
	err = a.cluster.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// releaseDefaultCR removes the agent's labels and annotations from the module's default CR. Lifecycle-manager does not
// need them, because it identifies the CR by kind and name.
func (a *actor) releaseDefaultCR(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	return client.IgnoreNotFound(a.cluster.Patch(ctx, o,
		client.RawPatch(types.MergePatchType, takeover.ReleaseDefaultCR())))
}

// giveBack hands an object over to lifecycle-manager. It returns a conflict error after a concurrent change.
func (a *actor) giveBack(ctx context.Context, r v1beta2.Resource, manager string) error {
	o, err := a.get(ctx, r)
	if o == nil || err != nil {
		return err
	}
	before := o.DeepCopy()
	if err := takeover.GiveFields(o, manager); err != nil {
		return objectError{object.KeyOf(r), err}
	}
	if err := a.cluster.Patch(ctx, o,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return objectError{object.KeyOf(r), err}
	}
	return nil
}
