package rendering

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/moduleinput"
)

func TestTypedValueIsInsertedIntoTheDefaultCR(t *testing.T) {
	m := &v1beta2.Manifest{Spec: v1beta2.ManifestSpec{Resource: &unstructured.Unstructured{Object: map[string]any{
		"kind": "Scaler", "spec": map[string]any{"replicas": "${kyma-pull.dev/values.size:int}"},
	}}}}
	m.Name, m.Annotations = "scaler", map[string]string{v1beta2.AnnotationValues: `{"size:int":"3"}`}
	values, invalid := moduleinput.Values(m)
	require.Nil(t, invalid)
	cr, problem := defaultCRWith(m, values)
	require.Nil(t, problem)
	require.Equal(t, map[string]any{"replicas": int64(3)}, cr.Object["spec"])

	m.Annotations[v1beta2.AnnotationValues] = `{"size:int":"three"}`
	_, invalid = moduleinput.Values(m)
	require.Equal(t, v1beta2.ReasonValueInvalid, invalid.Reason)
	require.Contains(t, invalid.Message,
		"module scaler: value size must be an integer, such as 3 (default CR: spec.replicas)")
}
