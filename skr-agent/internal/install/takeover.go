package install

import (
	"context"

	"github.com/fluxcd/pkg/ssa"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	agentobjects "github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
)

// applyOptions are those for objects of modules. Fields that lifecycle-manager owns become ours with the first apply:
// what a version does not have any more would stay in an object for as long as somebody else owns it.
func applyOptions() ssa.ApplyOptions {
	options := ssa.DefaultApplyOptions()
	options.Cleanup.FieldManagers = append(options.Cleanup.FieldManagers, agentobjects.FieldManagers(v1beta2.LifecycleManagerFieldManagers())...)
	return options
}

// giveBack makes lifecycle-manager the owner of the fields of an object that are ours, as if it had applied them, and
// removes our mark. So its next apply removes what its version does not have. One that changed meanwhile is an error of
// the moment.
func (a *actor) giveBack(ctx context.Context, r v1beta2.Resource, manager string) error {
	o, err := a.get(ctx, r)
	if o == nil || err != nil {
		return err
	}
	ours := []ssa.FieldManager{{Name: manager, ExactMatch: true, OperationType: metav1.ManagedFieldsOperationApply}}
	patches, err := ssa.PatchReplaceFieldsManagers(o, ours, v1beta2.FieldManagerApplier)
	if err != nil {
		return objectError{keyOf(r), err}
	}
	before := o.DeepCopy()
	annotations := o.GetAnnotations()
	delete(annotations, v1beta2.AnnotationOwnedBy)
	o.SetAnnotations(annotations)
	if len(patches) > 0 {
		o.SetManagedFields(patches[0].Value)
	}
	if err := a.cluster.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return objectError{keyOf(r), err}
	}
	return nil
}
