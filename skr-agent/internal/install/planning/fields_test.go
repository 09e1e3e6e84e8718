package planning

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/content/contenttest"
)

func TestLiveValuesOfOtherManagersAreKept(t *testing.T) {
	owned := func(by, fields string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{
			{Manager: by, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields)},
		}
	}
	for name, c := range map[string]struct {
		object, live, want string
		p                  content.Pointer
		managed            []metav1.ManagedFieldsEntry
	}{
		"agent owns the field": {
			"{spec: {replicas: 1}}", "{spec: {replicas: 3}}", "{spec: {replicas: 3}}", content.Pointer{"spec", "replicas"},
			owned("kyma-pull", `{"f:spec":{"f:replicas":{}}}`),
		},
		"another manager owns the field": {
			"{spec: {replicas: 1}}", "{spec: {replicas: 3}}", "{spec: {}}", content.Pointer{"spec", "replicas"},
			owned("hpa", `{"f:spec":{"f:replicas":{}}}`),
		},
		"live field does not exist": {
			"{spec: {replicas: 1}}", "{spec: {}}", "{spec: {}}", content.Pointer{"spec", "replicas"}, nil,
		},
		"field of a list item": {
			"{spec: {list: [{a: 1}, {a: 2}]}}", "{spec: {list: [{a: 1}, {a: 9}]}}", "{spec: {list: [{a: 1}, {a: 9}]}}",
			content.Pointer{"spec", "list", "1", "a"}, nil,
		},
		"list item": {
			"{list: [1, 2]}", "{list: [1, 9]}", "{list: [1, 9]}", content.Pointer{"list", "1"}, nil,
		},
		"list index out of range": {"{list: [1]}", "{list: [1, 9]}", "{list: [1]}", content.Pointer{"list", "1"}, nil},
		"parent field is missing in the object": {
			"{}", "{spec: {a: {b: 1}}}", "{spec: {a: {b: 1}}}", content.Pointer{"spec", "a", "b"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := "\napiVersion: v1\nkind: X\n"
			read := func(text string) *unstructured.Unstructured { return contenttest.Object(t, kind+"x: "+text) }
			o, live := read(c.object), read(c.live)
			managed := c.managed
			for n := range managed {
				managed[n].FieldsV1 = metav1.NewFieldsV1(`{"f:x":` + string(managed[n].FieldsV1.GetRawBytes()) + `}`)
			}
			live.SetManagedFields(managed)
			TakeLive(o, live, append(content.Pointer{"x"}, c.p...), "kyma-pull")
			require.Equal(t, read(c.want).Object["x"], o.Object["x"])
		})
	}
}
