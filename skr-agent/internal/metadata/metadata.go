// Package metadata merges the labels and annotations from a bundle into live objects. It removes entries that the agent
// set earlier and the bundle no longer contains, and keeps other clients' entries. It is pure.
package metadata

import (
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// FieldOwner is the agent's field manager.
	FieldOwner = "kyma-pull"
	// DefaultOwner is the field manager for the agent's requests that do not set one. It is the name of the program.
	DefaultOwner = "skr-agent"
)

// Merge returns the live labels or annotations with the desired entries. The set own contains the names that belong to
// the agent. Merge removes entries in own that desired does not contain.
func Merge(live, desired map[string]string, own map[string]bool) map[string]string {
	merged := maps.Clone(live)
	maps.DeleteFunc(merged, func(name, _ string) bool { return own[name] })
	if merged == nil && len(desired) > 0 {
		merged = map[string]string{}
	}
	maps.Copy(merged, desired)
	return merged
}

// Own returns the label and annotation names that the agent applied, according to managedFields.
func Own(entries []metav1.ManagedFieldsEntry) (labels, annotations map[string]bool) {
	labels, annotations = map[string]bool{}, map[string]bool{}
	for _, entry := range entries {
		if entry.Manager != FieldOwner && entry.Manager != DefaultOwner || entry.Subresource != "" ||
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
