package render

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// MaxDefaultCRBytes limits the size of a default CR, also after decompression.
const MaxDefaultCRBytes = 1 << 20

// DefaultCR decodes a module's default CR (bundle.ContentDefaultCR), which is YAML or a tar with one YAML file. It
// returns an error unless the content is exactly one object. The caller must have verified the content.
func DefaultCR(content []byte) (*unstructured.Unstructured, error) {
	if len(content) > MaxDefaultCRBytes {
		return nil, fmt.Errorf("the content is %d bytes, must be at most %d", len(content), MaxDefaultCRBytes)
	}
	objects, err := Input{Content: content}.render(MaxDefaultCRBytes)
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("the content has %d objects, must be one default CR", len(objects))
	}
	return objects[0], nil
}
