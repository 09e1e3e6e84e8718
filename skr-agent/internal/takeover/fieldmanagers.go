package takeover

import (
	"bytes"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldManager is a field manager with one operation, Apply or Update. It matches entries in managedFields, except
// entries for subresources.
type fieldManager struct {
	Name      string
	Operation metav1.ManagedFieldsOperationType
}

func (m fieldManager) owns(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == m.Name && e.Operation == m.Operation && e.Subresource == ""
}

// fieldManagers returns two field managers for each name: one with the operation Apply and one with Update.
func fieldManagers(names []string) []fieldManager {
	var all []fieldManager
	for _, name := range names {
		all = append(all,
			fieldManager{name, metav1.ManagedFieldsOperationApply},
			fieldManager{name, metav1.ManagedFieldsOperationUpdate})
	}
	return all
}

// removeFieldManagers returns managedFields without the given managers' entries. It returns nil if no entry belongs to
// them. If no entries are left, the result contains one empty entry, because the API server clears managedFields only
// for this value.
func removeFieldManagers(entries []metav1.ManagedFieldsEntry, managers []fieldManager) []metav1.ManagedFieldsEntry {
	isTheirs := func(e metav1.ManagedFieldsEntry) bool { return isManagedBy(managers, e) }
	left := slices.DeleteFunc(slices.Clone(entries), isTheirs)
	switch len(left) {
	case len(entries):
		return nil
	case 0:
		return []metav1.ManagedFieldsEntry{{}}
	}
	return left
}

// replaceFieldManagers returns managedFields after the fields of the given managers were transferred to newManager, as
// if this manager had applied them. It returns nil if the given managers own no fields.
func replaceFieldManagers(
	entries []metav1.ManagedFieldsEntry, managers []fieldManager, newManager string,
) ([]metav1.ManagedFieldsEntry, error) {
	var left []metav1.ManagedFieldsEntry
	var own *metav1.ManagedFieldsEntry
	applier := fieldManager{newManager, metav1.ManagedFieldsOperationApply}
	for _, e := range entries {
		if applier.owns(e) {
			own = e.DeepCopy()
		}
	}
	found := false
	for _, e := range entries {
		switch {
		case applier.owns(e):
		case !isManagedBy(managers, e):
			left = append(left, e)
		case own == nil:
			own, found = e.DeepCopy(), true
			own.Manager, own.Operation = newManager, metav1.ManagedFieldsOperationApply
		default:
			found = true
			fields, err := unionFields(own.FieldsV1, e.FieldsV1)
			if err != nil {
				return nil, fmt.Errorf("managedFields of %s: %w", e.Manager, err)
			}
			own.FieldsV1 = fields
		}
	}
	if !found {
		return nil, nil
	}
	return append(left, *own), nil
}

func isManagedBy(managers []fieldManager, e metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(managers, func(m fieldManager) bool { return m.owns(e) })
}

// unionFields returns the fields that at least one of two managedFields entries contains.
func unionFields(a, b *metav1.FieldsV1) (*metav1.FieldsV1, error) {
	var both fieldpath.Set
	for _, fields := range []*metav1.FieldsV1{a, b} {
		if fields == nil {
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(bytes.NewReader(fields.GetRawBytes())); err != nil {
			return nil, err
		}
		both = *both.Union(&set)
	}
	raw, err := both.ToJSON()
	if err != nil {
		return nil, err
	}
	return metav1.NewFieldsV1(string(raw)), nil
}
