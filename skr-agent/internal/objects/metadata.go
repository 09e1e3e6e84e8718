package objects

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/metadata"
)

// keepMetadata sets the bundle's labels and annotations on an object. It removes the labels and annotations that the
// agent set earlier, and keeps other clients' labels and annotations.
func keepMetadata(object client.Object, labels, annotations map[string]string) {
	ownLabels, ownAnnotations := metadata.Own(object.GetManagedFields())
	// The annotation with pinned versions belongs to the runtime's admin, even if the agent created it.
	delete(ownAnnotations, v1beta2.AnnotationPinnedVersions)
	object.SetLabels(metadata.Merge(object.GetLabels(), labels, ownLabels))
	object.SetAnnotations(metadata.Merge(object.GetAnnotations(), annotations, ownAnnotations))
}

func setOf(lists ...[]string) map[string]bool {
	names := map[string]bool{}
	for _, name := range slices.Concat(lists...) {
		names[name] = true
	}
	return names
}

// mergeEntries returns the live labels or annotations with the desired entries.
func mergeEntries(live, desired map[string]string) map[string]string {
	return metadata.Merge(live, desired, nil)
}
