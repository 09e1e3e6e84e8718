package rendering

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestReleaseKeysRequireImagesWithDigests(t *testing.T) {
	const sum = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for name, c := range map[string]struct {
		image, policy string
		listed        []string
		refused       bool
	}{
		"image that the component lists with its digest": {
			"example.org/keda:1.0", `{"pinned":true}`, []string{"l.example/keda:1.0@" + sum}, false,
		},
		"image with a digest in the content": {"example.org/keda:1.0@" + sum, `{"pinned":true}`, nil, false},
		"image without a digest":             {"example.org/keda:1.0", `{"pinned":true}`, nil, true},
		"image that the component lists without a digest": {
			"example.org/keda:1.0", `{"pinned":true}`, []string{"l.example/keda:1.0"}, true,
		},
		"image without a digest and no release keys": {"example.org/keda:1.0", "", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &v1beta2.Manifest{Spec: v1beta2.ManifestSpec{LocalizedImages: c.listed}}
			m.Annotations = map[string]string{v1beta2.AnnotationImages: c.policy}
			pod := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "keda"},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "keda", "image": c.image}}},
			}}
			_, problem := redirect(m, []*unstructured.Unstructured{pod})
			if c.refused != (problem != nil) {
				t.Fatalf("got problem %+v, want one: %t", problem, c.refused)
			}
			if c.refused && (problem.Reason != v1beta2.ReasonImagesNotListed ||
				!strings.Contains(problem.Message, "example.org/keda:1.0")) {
				t.Errorf("got problem %+v, want the image", problem)
			}
		})
	}
}
