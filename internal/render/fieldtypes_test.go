package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestWrongFieldTypesOfBuiltInKindsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: two}}": "field spec.replicas must " +
			"be an integer, got string",
		"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, env: [{name: A, value: 1}]}]}}": "" +
			"field spec.containers.env.value must be a string, got number",
		"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostNetwork: 'yes'}}": "field spec.hostNetwork must be " +
			"true or false, got string",
		"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: {name: c}}}": "field spec.containers must be " +
			"a list, got object",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {b: true}}}": "field metadata.labels must be " +
			"a string, got bool",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: [b]}": "field data must be an object, got array",
		"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {b: '%'}}": "illegal base64 data at input byte 0: " +
			"no API server accepts this object",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2, unknown: x}}":                   "",
		"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80, targetPort: http}]}}":             "",
		"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80, targetPort: 8080}]}}":             "",
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {resources: {requests: {storage: 5}}}}": "",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: null}":                                              "",
		"{apiVersion: example.org/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: two}}":                      "",
		"{apiVersion: apps/v9, kind: Deployment, metadata: {name: a}, spec: {replicas: two}}":                             "",
	} {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(text), &object))
		err := CheckFieldTypes(&unstructured.Unstructured{Object: object})
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorIs(t, err, ErrWrongType, text)
		require.ErrorContains(t, err, want, text)
	}
}
