package objects

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// keepMetadata sets the bundle's labels and annotations on an object. It removes the labels and annotations that the
// agent set earlier, and keeps other clients' labels and annotations.
func keepMetadata(object client.Object, labels, annotations map[string]string) {
	ownLabels, ownAnnotations := ownMetadata(object.GetManagedFields())
	// The annotation with pinned versions belongs to the runtime's admin, even if the agent created it.
	delete(ownAnnotations, v1beta2.AnnotationPinnedVersions)
	object.SetLabels(mergeMetadata(object.GetLabels(), labels, ownLabels))
	object.SetAnnotations(mergeMetadata(object.GetAnnotations(), annotations, ownAnnotations))
}

// mergeMetadata returns the live labels or annotations with the desired entries. own contains the names that belong to
// the agent. mergeMetadata removes entries in own that desired does not contain.
func mergeMetadata(live, desired map[string]string, own map[string]bool) map[string]string {
	kept := maps.Clone(live)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		_, wanted := desired[key]
		return own[key] && !wanted
	})
	return mergeEntries(kept, desired)
}

// ownMetadata returns the label and annotation names that the agent applied, according to managedFields.
func ownMetadata(entries []metav1.ManagedFieldsEntry) (labels, annotations map[string]bool) {
	labels, annotations = map[string]bool{}, map[string]bool{}
	for _, entry := range entries {
		if entry.Manager != fieldOwner && entry.Manager != defaultOwner || entry.Subresource != "" ||
			entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels      map[string]json.RawMessage `json:"f:labels"`
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		addNames(labels, fields.Metadata.Labels)
		addNames(annotations, fields.Metadata.Annotations)
	}
	return labels, annotations
}

// addNames adds label or annotation names to names. The keys in fields come from managedFields and have the format
// f:NAME.
func addNames(names map[string]bool, fields map[string]json.RawMessage) {
	for field := range fields {
		if name, is := strings.CutPrefix(field, "f:"); is {
			names[name] = true
		}
	}
}

func setOf(lists ...[]string) map[string]bool {
	names := map[string]bool{}
	for _, name := range slices.Concat(lists...) {
		names[name] = true
	}
	return names
}

// mergeEntries returns a copy of the live labels or annotations with the desired entries.
func mergeEntries(live, desired map[string]string) map[string]string {
	if len(desired) == 0 {
		return live
	}
	merged := maps.Clone(live)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, desired)
	return merged
}
