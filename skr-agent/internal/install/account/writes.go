package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	agentobjects "github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// Apply applies an object and returns the API server's copy.
func (a *Account) Apply(
	ctx context.Context, o *unstructured.Unstructured, options ...client.ApplyOption,
) (*unstructured.Unstructured, error) {
	live := o.DeepCopy()
	options = append(options, client.ForceOwnership)
	if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(live), options...); err != nil {
		return nil, err
	}
	return live, nil
}

// IsImmutable reports whether the API server rejects an object only because of immutable fields. It dry-runs the
// creation, because the API server returns AlreadyExists for an otherwise valid object.
func (a *Account) IsImmutable(ctx context.Context, o *unstructured.Unstructured, refused error) (bool, error) {
	if !apierrors.IsInvalid(refused) || agentobjects.IsDenied(refused) ||
		guard.IsCRD(o.GroupVersionKind().GroupKind()) && !namesImmutableFields(refused) {
		return false, nil
	}
	err := a.Client.Create(ctx, o.DeepCopy(), &client.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict},
	})
	if err != nil && IsTemporary(err) {
		return false, err
	}
	return apierrors.IsAlreadyExists(err) && !agentobjects.IsDenied(err), nil
}

// namesImmutableFields reports whether an error lists only immutable fields.
func namesImmutableFields(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return false
	}
	return !slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return !strings.HasSuffix(c.Message, "field is immutable")
	})
}

// HasUnresponsiveWebhook reports whether the API server could not call a webhook for an update of an object. It
// dry-runs a patch without changes.
func (a *Account) HasUnresponsiveWebhook(ctx context.Context, r v1beta2.Resource) bool {
	err := a.Client.Patch(ctx, object.Reference(r), client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll)
	return apierrors.IsInternalError(err)
}

// Unmark removes the annotations and labels that identify an object's owner. The label with the module's name stays, so
// that the module can own the object again.
func (a *Account) Unmark(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null},"annotations":{%q:null}}}`, v1beta2.LabelManagedBy,
		v1beta2.AnnotationOwnedBy)
	return client.IgnoreNotFound(a.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)))
}

// ApplyAndTake applies an object and takes over the fields that lifecycle-manager owns.
func (a *Account) ApplyAndTake(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := a.Apply(ctx, o)
	if IsUnconverted(err) && guard.IsCustomGroup(o.GroupVersionKind().Group) {
		if replaced, replaceErr := a.replaceLostVersions(ctx, o); replaced && replaceErr == nil {
			live, err = a.Apply(ctx, o)
		}
	}
	if err != nil {
		return nil, err
	}
	entries, err := takeover.ManagedFieldsAfterTakeover(live.GetManagedFields(), a.manager)
	if err != nil || len(entries) == 0 {
		return live, err
	}
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/metadata/managedFields", "value": entries}})
	if err != nil {
		return nil, err
	}
	if err := a.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return nil, fmt.Errorf("take over the fields of lifecycle-manager: %w", err)
	}
	return a.Apply(ctx, o)
}

// AdoptDefaultCR adds the module's labels and annotations to a default CR that lifecycle-manager created, so that
// watches select the CR. If takes is true, it also does so for another module's CR. It does nothing if the account
// lacks the permission.
func (a *Account) AdoptDefaultCR(
	ctx context.Context, live *metav1.PartialObjectMetadata, by object.Owner, takes bool,
) error {
	if by.IsAnnotatedOwner(live) || !takes && !by.OwnsDefaultCR(live) {
		return nil
	}
	labels, annotations := by.Marks()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.UID, "labels": labels, "annotations": annotations,
	}})
	if err != nil {
		return err
	}
	err = a.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ReleaseDefaultCR removes the agent's labels and annotations from the module's default CR. Lifecycle-manager does not
// need them, because it identifies the CR by kind and name.
func (a *Account) ReleaseDefaultCR(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	return client.IgnoreNotFound(a.Client.Patch(ctx, o,
		client.RawPatch(types.MergePatchType, takeover.ReleaseDefaultCR())))
}

// GiveBack hands an object over to lifecycle-manager. It returns a conflict error after a concurrent change.
func (a *Account) GiveBack(ctx context.Context, r v1beta2.Resource, manager string) error {
	o, err := a.Get(ctx, r)
	if o == nil || err != nil {
		return err
	}
	before := o.DeepCopy()
	if err := takeover.ReturnFields(o, manager); err != nil {
		return ObjectError{Key: object.KeyOf(r), Err: err}
	}
	if err := a.Client.Patch(ctx, o,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return ObjectError{Key: object.KeyOf(r), Err: err}
	}
	return nil
}
