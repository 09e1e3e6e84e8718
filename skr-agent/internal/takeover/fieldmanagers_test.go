package takeover

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type entries = []metav1.ManagedFieldsEntry

func fieldsOf(
	manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string,
) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestFieldManagersAreReplacedAndRemoved(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	former := fieldManagers([]string{"former"})
	a, b, ab := `{"f:data":{"f:a":{}}}`, `{"f:data":{"f:b":{}}}`, `{"f:data":{"f:a":{},"f:b":{}}}`
	status, ours := fieldsOf("former", update, "status", a), fieldsOf("ours", apply, "", a)
	both := fieldsOf("ours", apply, "", ab)
	for name, c := range map[string]struct{ before, replaced, removed entries }{
		"no entry of the former manager": {entries{ours, status}, nil, nil},
		"former manager's entry is transferred to the new manager": {
			entries{fieldsOf("former", update, "", a)}, entries{ours}, entries{{}},
		},
		"former manager's fields are merged into the new manager's entry": {
			entries{fieldsOf("former", apply, "", b), ours, status}, entries{status, both}, entries{ours, status},
		},
		"two entries of the former manager are merged": {
			entries{fieldsOf("former", apply, "", a), fieldsOf("former", update, "", b)}, entries{both}, entries{{}},
		},
		"status entry of the former manager stays": {
			entries{status, fieldsOf("former", apply, "", a)}, entries{status, ours}, entries{status},
		},
	} {
		replaced, err := replaceFieldManagers(c.before, former, "ours")
		require.NoError(t, err, name)
		require.Equal(t, c.replaced, replaced, name)
		require.Equal(t, c.removed, removeFieldManagers(c.before, former), name)
	}
	_, err := replaceFieldManagers(entries{fieldsOf("former", apply, "", "no"), ours}, former, "ours")
	require.ErrorContains(t, err, "managedFields of former")
}
