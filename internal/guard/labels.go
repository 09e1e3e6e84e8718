package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// ErrExposed is the error for a refused label, which would let a webhook or policy intercept the agent's requests.
var ErrExposed = errors.New("label would expose the agent's requests to a webhook or policy")

// LabelsExceptManager returns an object's labels, except the labels that the given field manager applied.
func LabelsExceptManager(live *metav1.PartialObjectMetadata, manager string) labels.Set {
	left := maps.Clone(live.Labels)
	for _, e := range live.ManagedFields {
		var fields struct {
			Metadata struct {
				Labels map[string]any `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if e.Manager != manager || e.Operation != metav1.ManagedFieldsOperationApply || e.FieldsV1 == nil {
			continue
		}
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) != nil {
			continue // ignore a format that this program does not know
		}
		for field := range fields.Metadata.Labels {
			delete(left, strings.TrimPrefix(field, "f:"))
		}
	}
	return left
}

// SafeLabels returns the labels to apply to the agent's namespace. current contains all current labels,
// others contains those that other field managers own, and wanted contains the requested labels. A label keeps its
// current value if the requested change would let a webhook or policy intercept the agent's requests. The error lists
// each such label with the reason.
func SafeLabels(
	current, others, wanted labels.Set, agentNamespace string, installed []unstructured.Unstructured,
	pods []metav1.PartialObjectMetadata,
) (labels.Set, error) {
	safe := labels.Set{}
	for label, value := range current {
		if others[label] != value {
			safe[label] = value
		}
	}
	// Check each label separately, so that a refused label does not block the others.
	var problems []error
	try := func(label string, change func(labels.Set)) {
		next := maps.Clone(safe)
		change(next)
		rule := podExposure(label, next[label], pods)
		if rule == "" {
			rule = CheckNamespaceLabels(labels.Merge(others, safe), labels.Merge(others, next), agentNamespace, installed)
		}
		if rule == "" {
			safe = next
			return
		}
		problems = append(problems, fmt.Errorf("%w: Namespace %s: %s", ErrExposed, agentNamespace, rule))
	}
	for _, label := range slices.Sorted(maps.Keys(safe)) {
		if _, stays := wanted[label]; !stays {
			try(label, func(next labels.Set) { delete(next, label) })
		}
	}
	for _, label := range slices.Sorted(maps.Keys(wanted)) {
		if current[label] != wanted[label] {
			try(label, func(next labels.Set) { next[label] = wanted[label] })
		} else {
			safe[label] = wanted[label]
		}
	}
	return safe, errors.Join(problems...)
}

// podExposure returns a problem if a label for Istio would add a proxy to one of the agent's pods, and otherwise "".
func podExposure(label, value string, pods []metav1.PartialObjectMetadata) string {
	if value == "" || label != "istio-injection" && label != "istio.io/rev" || value == "disabled" {
		return ""
	}
	for _, pod := range pods {
		if pod.Labels[LabelSidecar] != "false" {
			return fmt.Sprintf(
				"metadata.labels: %s=%s would let Istio inject a proxy into Pod %s of the agent: set the label %s: "+
					"\"false\" in the pod template of its Deployment, as the chart does",
				label, value, pod.Name, LabelSidecar)
		}
	}
	return ""
}
