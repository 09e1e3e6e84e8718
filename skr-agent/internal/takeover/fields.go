package takeover

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// ManagedFieldsAfterTakeover returns an object's managedFields after the given field manager has taken over the fields
// that lifecycle-manager owns. It returns nil if lifecycle-manager owns no fields.
func ManagedFieldsAfterTakeover(
	entries []metav1.ManagedFieldsEntry, newManager string,
) ([]metav1.ManagedFieldsEntry, error) {
	return replaceFieldManagers(entries, lifecycleManager(), newManager)
}

func lifecycleManager() []fieldManager { return fieldManagers(v1beta2.LifecycleManagerFieldManagers()) }

// TakeFields makes another field manager the owner of the fields that lifecycle-manager owns in an object.
func TakeFields(ctx context.Context, uncached client.Client, o *unstructured.Unstructured, to string) error {
	return moveFields(ctx, uncached, o, lifecycleManager(), to, to)
}

// ReturnFields makes lifecycle-manager the owner of the fields that another field manager applied to an object. It also
// removes the annotation owned-by. It changes only the given object, not the cluster.
func ReturnFields(o *unstructured.Unstructured, from string) error {
	ours := []fieldManager{{from, metav1.ManagedFieldsOperationApply}}
	entries, err := replaceFieldManagers(o.GetManagedFields(), ours, v1beta2.FieldManagerApplier)
	if err != nil {
		return err
	}
	annotations := o.GetAnnotations()
	delete(annotations, v1beta2.AnnotationOwnedBy)
	o.SetAnnotations(annotations)
	if len(entries) > 0 {
		o.SetManagedFields(entries)
	}
	return nil
}

// ReleaseDefaultCR returns a merge patch that removes the agent's labels and the annotation owned-by from a module's
// default CR.
func ReleaseDefaultCR() []byte {
	return fmt.Appendf(nil, `{"metadata":{"labels":{%q:null,%q:null},"annotations":{%q:null}}}`,
		v1beta2.LabelManagedBy, v1beta2.LabelModuleName, v1beta2.AnnotationOwnedBy)
}

// transferFields makes another field manager the owner of the fields that the agent owns in an object. If to is empty,
// transferFields only removes the agent's ownership.
func (w Writer) transferFields(ctx context.Context, o *unstructured.Unstructured, to string) error {
	return moveFields(ctx, w.Uncached, o, fieldManagers(w.Owners), to, w.Owner)
}

// moveFields makes another field manager the owner of an object's fields that the given field managers own. If to is
// empty, no manager owns the fields afterwards. moveFields returns a conflict if another client changed the object at
// the same time.
func moveFields(
	ctx context.Context, uncached client.Client, o *unstructured.Unstructured, from []fieldManager, to, as string,
) error {
	entries := removeFieldManagers(o.GetManagedFields(), from)
	if to != "" {
		var err error
		if entries, err = replaceFieldManagers(o.GetManagedFields(), from, to); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	before := o.DeepCopy()
	o.SetManagedFields(entries)
	err := uncached.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(as))
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("change the field manager of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}
