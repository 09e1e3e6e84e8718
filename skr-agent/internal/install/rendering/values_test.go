package rendering

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/moduleinput"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
)

func TestTypedValueIsInsertedIntoTheDefaultCR(t *testing.T) {
	m := &v1beta2.Manifest{Spec: v1beta2.ManifestSpec{Resource: &unstructured.Unstructured{Object: map[string]any{
		"kind": "Scaler", "spec": map[string]any{"replicas": "${kyma-pull.dev/values.size:int}"},
	}}}}
	m.Name, m.Annotations = "scaler", map[string]string{v1beta2.AnnotationValues: `{"size:int":"3"}`}
	values, invalid := moduleinput.Values(m)
	require.Nil(t, invalid)
	cr, err := moduleinput.DefaultCR(m, values)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"replicas": int64(3)}, cr.Object["spec"])

	m.Annotations[v1beta2.AnnotationValues] = `{"size:int":"three"}`
	_, invalid = moduleinput.Values(m)
	require.Equal(t, v1beta2.ReasonValueInvalid, invalid.Reason)
	require.Contains(t, invalid.Message,
		"module scaler: value size must be an integer, such as 3 (default CR: spec.replicas)")
}

func TestImagePathsApplyToTheDefaultCR(t *testing.T) {
	content := []byte("{}")
	source, err := json.Marshal(v1beta2.ImageSpec{Type: v1beta2.OCIRef, Ref: digest.FromBytes(content).String()})
	require.NoError(t, err)
	m := &v1beta2.Manifest{Spec: v1beta2.ManifestSpec{
		Install: v1beta2.InstallInfo{Source: runtime.RawExtension{Raw: source}},
		Resource: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "operator.example.org/v1", "kind": "Scaler", "metadata": map[string]any{"name": "default"},
			"spec": map[string]any{"image": "example.org/scaler:1"},
		}},
	}}
	m.Name, m.Annotations = "scaler", map[string]string{
		v1beta2.AnnotationImages: `{"mirrors":{"example.org":"mirror.local"},` +
			`"imagePaths":[{"group":"operator.example.org","kind":"Scaler","field":"spec.image"}]}`,
	}
	api := fake.NewClientBuilder().Build()
	store := contentstore.New(api, api, v1beta2.RuntimeNamespace)
	require.NoError(t, store.Put(t.Context(), digest.FromBytes(content), content))
	renderer := Renderer{
		Content: store,
		Render:  func(context.Context, render.Input) ([]*unstructured.Unstructured, error) { return nil, nil },
	}
	rendered, problem, err := renderer.Module(t.Context(), m, nil)
	require.NoError(t, err)
	require.Nil(t, problem)
	image, _, _ := unstructured.NestedString(rendered.DefaultCR.Object, "spec", "image")
	require.Equal(t, "mirror.local/scaler:1", image)
	original, _, _ := unstructured.NestedString(m.Spec.Resource.Object, "spec", "image")
	require.Equal(t, "example.org/scaler:1", original, "the cached Manifest must not change")
}
