package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestAppliedVersionOmitsImagesThatExceedTheLimit(t *testing.T) {
	long := strings.Repeat("a", 300<<10)
	var images []string
	for n := range 1000 {
		images = append(images,
			fmt.Sprintf("registry.example.org/some/long/path/to/an/image-%d:1.0.0@sha256:%064d", n, n))
	}
	m := &v1beta2.Manifest{Spec: v1beta2.ManifestSpec{Version: "1.0.0", LocalizedImages: images[:2]}}
	m.Annotations = map[string]string{v1beta2.AnnotationImages: "{}"}
	few := RequestedVersion(m)
	m.Spec.Resource = &unstructured.Unstructured{Object: map[string]any{"spec": long}}
	large := RequestedVersion(m)
	m.Spec.LocalizedImages = images
	many := RequestedVersion(m)
	m.Annotations[v1beta2.AnnotationImages] = long
	most := RequestedVersion(m)
	for name, c := range map[string]struct {
		wanted  AppliedVersion
		without bool
	}{"few images": {few, false}, "large default CR": {large, false}, "many images": {many, true},
		"many image rules": {most, true}} {
		text, err := json.Marshal(c.wanted)
		if err != nil || len(text) > maxAppliedBytes || c.wanted.ImagesOmitted != c.without ||
			c.without != (len(c.wanted.LocalizedImages)+len(c.wanted.Images) == 0) {
			t.Errorf("%s: got %d bytes, error %v, want images omitted %t: %.200s",
				name, len(text), err, c.without, text)
		}
	}
	if few.Digest == large.Digest || many.Digest == most.Digest {
		t.Error("the digest does not cover the parts that the record omits")
	}
}
