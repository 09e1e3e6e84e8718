package follow

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// The repository owns the whole spec of each object in a commit. Server-side apply removes only fields that this
// program applied before, so this program first takes over all fields in the spec. Labels and annotations that are not
// in the commit stay with their owners.

const fieldManager = "kcp-publisher-git"

var specPath = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"))

// ownsSpec reports whether fieldManager owns all fields of an object's spec. Fields without an owner are defaults.
func ownsSpec(object *unstructured.Unstructured) bool {
	_, changed, err := reclaimSpec(object.GetManagedFields())
	return err == nil && !changed
}

// reclaimSpec returns the managed fields of an object with fieldManager as the owner of the whole spec.
func reclaimSpec(entries []metav1.ManagedFieldsEntry) (reclaimed []metav1.ManagedFieldsEntry, changed bool, err error) {
	ours, theirs := fieldpath.NewSet(), fieldpath.NewSet()
	position := -1
	for _, entry := range entries {
		owned, err := ownedBy(entry)
		if err != nil {
			return nil, false, err
		}
		if isOurs(entry) {
			ours, position = ours.Union(owned), len(reclaimed)
			reclaimed = append(reclaimed, entry)
			continue
		}
		if entry.Subresource == "" {
			rest := owned.RecursiveDifference(specPath)
			theirs = theirs.Union(owned.Difference(rest))
			if owned = rest; owned.Empty() {
				continue
			}
			if err := write(&entry, owned); err != nil {
				return nil, false, err
			}
		}
		reclaimed = append(reclaimed, entry)
	}
	// Only leaves are compared, because an apply owns only leaves.
	changed = position < 0 || !theirs.Leaves().Difference(ours).Empty()
	if position < 0 && !theirs.Empty() {
		position = len(reclaimed)
		reclaimed = append(reclaimed, metav1.ManagedFieldsEntry{
			Manager: fieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: entries[0].APIVersion,
			FieldsType: "FieldsV1",
		})
	}
	if position >= 0 {
		err = write(&reclaimed[position], ours.Union(theirs))
	}
	return reclaimed, changed, err
}

// reclaimPatch returns the JSON patch that makes fieldManager the owner of an object's spec, or nil.
func reclaimPatch(object *unstructured.Unstructured) ([]byte, error) {
	fields, changed, err := reclaimSpec(object.GetManagedFields())
	if err != nil || !changed || len(fields) == 0 {
		return nil, err
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	operations := []operation{
		{"replace", "/metadata/managedFields", fields},
		{"replace", "/metadata/resourceVersion", object.GetResourceVersion()}, // fails if the object changed
	}
	if _, digested := object.GetAnnotations()[v1beta2.AnnotationGitDigest]; digested {
		operations = append(operations, operation{
			Op: "remove", Path: "/metadata/annotations/kyma-pull.dev~1git-digest",
		})
	}
	return json.Marshal(operations)
}

// reclaim makes fieldManager the owner of an object's whole spec, so an apply removes other managers' fields.
func (f *Follower) reclaim(ctx context.Context, object *unstructured.Unstructured) error {
	if object == nil {
		return nil
	}
	object = object.DeepCopy()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		patch, err := reclaimPatch(object)
		if err != nil || patch == nil {
			return err
		}
		err = f.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.JSONPatchType, patch),
			client.FieldOwner(fieldManager))
		if apierrors.IsConflict(err) {
			if err := f.readAgain(ctx, object); err != nil {
				return err
			}
		}
		return err
	})
	return client.IgnoreNotFound(err)
}

// readAgain reads an object again. It uses a list request, because the publisher does not have permission to get
// single objects.
func (f *Follower) readAgain(ctx context.Context, object *unstructured.Unstructured) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(object.GroupVersionKind().GroupVersion().WithKind(object.GetKind() + "List"))
	byName := client.MatchingFields{"metadata.name": object.GetName()}
	if err := f.Reader.List(ctx, list, client.InNamespace(object.GetNamespace()), byName); err != nil {
		return fmt.Errorf("read %s again: %w", KeyOf(object), err)
	}
	if len(list.Items) != 1 {
		return apierrors.NewNotFound(schema.GroupResource{Group: object.GroupVersionKind().Group,
			Resource: object.GetKind()}, object.GetName())
	}
	list.Items[0].DeepCopyInto(object)
	return nil
}

func isOurs(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == fieldManager && entry.Operation == metav1.ManagedFieldsOperationApply &&
		entry.Subresource == ""
}

func ownedBy(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if entry.FieldsV1 == nil {
		return set, nil
	}
	if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("metadata.managedFields: fields of %s: %w", entry.Manager, err)
	}
	return set, nil
}

func write(entry *metav1.ManagedFieldsEntry, set *fieldpath.Set) error {
	data, err := set.ToJSON()
	if err != nil {
		return fmt.Errorf("metadata.managedFields: fields of %s: %w", entry.Manager, err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(data))
	return nil
}
