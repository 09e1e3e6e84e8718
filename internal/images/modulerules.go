package images

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// ModuleRules contains the rules for all images of one module: the images in the module's objects, in its default CR,
// and in the Jobs of its checks.
type ModuleRules struct {
	bundle.ImageRules
	// Localized contains spec.localizedImages of the module's Manifest.
	Localized []string
}

// RulesOf returns a Manifest's rules. It returns an error if the annotation with the rules is invalid.
func RulesOf(m *v1beta2.Manifest) (ModuleRules, error) {
	r := ModuleRules{Localized: m.Spec.LocalizedImages}
	if text := m.Annotations[v1beta2.AnnotationImages]; text != "" {
		if err := json.Unmarshal([]byte(text), &r.ImageRules); err != nil {
			return r, fmt.Errorf("annotation %s: %w", v1beta2.AnnotationImages, err)
		}
	}
	return r, nil
}

// Apply changes images in objects in place, adds the pull Secret, and returns all images. If the rules require digests,
// unpinned lists the images without one, and the objects must not be applied. See AddPullSecret for isOperator.
func (r ModuleRules) Apply(
	objects []*unstructured.Unstructured, isOperator func(*unstructured.Unstructured) bool,
) (uses []Use, unpinned []string, err error) {
	uses, err = Rewrite(objects, Rewriting{Localized: r.Localized, Mirrors: r.Mirrors, Paths: r.ImagePaths})
	if err != nil {
		return nil, nil, err
	}
	if r.ImagePullSecret != "" {
		if err := AddPullSecret(objects, r.ImagePullSecret, isOperator); err != nil {
			return nil, nil, err
		}
	}
	if r.Pinned {
		unpinned = UnpinnedImages(uses)
	}
	return uses, unpinned, nil
}
