package moduleinput

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

func TestUsedImagesAreFoundWithoutACluster(t *testing.T) {
	content := []byte(`apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  initContainers: [{name: i, image: "nginx:1"}]
  containers:
  - {name: c, image: "example.org/keda:1", env: [{name: OPERAND, value: "example.org/operand:1"}]}
  - {name: d, image: "nginx:1"}
---
apiVersion: example.org/v1
kind: Thing
metadata: {name: a}
spec: {image: "example.org/thing:1"}
`)
	at := digest.FromBytes(content)
	source, err := json.Marshal(v1beta2.ImageSpec{Type: v1beta2.OCIRef, Ref: at.String()})
	require.NoError(t, err)
	question := airgap.UsedRequest{
		Manifest: bundle.Manifest{Name: "keda", Spec: v1beta2.ManifestSpec{
			Install: v1beta2.InstallInfo{
				Source: runtime.RawExtension{Raw: source},
			}, LocalizedImages: []string{"local.example/keda:1", "local.example/operand:1"},
			Resource: &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.org/v1", "kind": "Thing", "metadata": map[string]any{"name": "default"},
				"spec": map[string]any{"image": "example.org/default:1"},
			}},
		}},
		Contents: map[digest.Digest][]byte{
			at: content,
		}, ImagePaths: []bundle.ImagePath{{Group: "example.org", Kind: "Thing", Field: "spec.image"}},
	}
	plain := func(_ context.Context, in render.Input) ([]*unstructured.Unstructured, error) {
		return render.Render(in)
	}
	used, err := UsedImages(t.Context(), question, plain)
	require.NoError(t, err)
	require.Equal(t, []string{
		"example.org/default:1", "example.org/thing:1", "local.example/keda:1", "local.example/operand:1", "nginx:1",
	}, used)

	question.Contents[at] = content[1:]
	_, err = UsedImages(t.Context(), question, plain)
	require.ErrorContains(t, err, "content "+at.String()+" is missing")
}
