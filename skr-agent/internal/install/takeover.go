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
	agentobjects "github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
)

// applyTaking applies an object and takes over the fields that lifecycle-manager owns in it. Otherwise fields that a
// version does not have any more would stay in the object for as long as lifecycle-manager owns them.
func (a *actor) applyTaking(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := a.applyObject(ctx, o)
	if err != nil {
		return nil, err
	}
	former := agentobjects.FieldManagers(v1beta2.LifecycleManagerFieldManagers())
	entries, err := agentobjects.ReplaceFieldManagers(live.GetManagedFields(), former, a.manager)
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

// adoptDefaultCR marks a default CR that lifecycle-manager created. Without the mark, the module's watches do not
// select it. An account that cannot patch the CR leaves it unmarked: its field manager still identifies it.
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

// releaseDefaultCR removes the module's marks from its default CR. Lifecycle-manager identifies it by kind and name.
func (a *actor) releaseDefaultCR(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null,%q:null},"annotations":{%q:null}}}`,
		v1beta2.LabelManagedBy, v1beta2.LabelModuleName, v1beta2.AnnotationOwnedBy)
	return client.IgnoreNotFound(a.cluster.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)))
}

// giveBack makes lifecycle-manager the owner of the fields of an object that are ours, as if it had applied them, and
// removes our mark. So its next apply removes what its version does not have. One that changed meanwhile is an error of
// the moment.
func (a *actor) giveBack(ctx context.Context, r v1beta2.Resource, manager string) error {
	o, err := a.get(ctx, r)
	if o == nil || err != nil {
		return err
	}
	ours := []agentobjects.FieldManager{{Name: manager, Operation: metav1.ManagedFieldsOperationApply}}
	entries, err := agentobjects.ReplaceFieldManagers(o.GetManagedFields(), ours, v1beta2.FieldManagerApplier)
	if err != nil {
		return objectError{keyOf(r), err}
	}
	before := o.DeepCopy()
	annotations := o.GetAnnotations()
	delete(annotations, v1beta2.AnnotationOwnedBy)
	o.SetAnnotations(annotations)
	if len(entries) > 0 {
		o.SetManagedFields(entries)
	}
	if err := a.cluster.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(
		err,
	) != nil {
		return objectError{keyOf(r), err}
	}
	return nil
}
