// Package readiness derives the state of a module from its observed objects. It is pure.
package readiness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// Verdict is the state of a module, derived from its observed objects.
type Verdict struct {
	State   v1beta2.State
	Message string
}

// ModuleState returns the most severe state of a module's objects: Error, Processing, Warning or Ready. The message
// lists the objects in this state.
func ModuleState(seen []Observation) Verdict {
	byState := map[v1beta2.State][]string{}
	for _, s := range seen {
		state, message := ObjectState(s)
		byState[state] = append(byState[state], s.String()+": "+message)
	}
	for _, state := range []v1beta2.State{v1beta2.StateError, v1beta2.StateProcessing, v1beta2.StateWarning} {
		if messages := byState[state]; len(messages) > 0 {
			return Verdict{state, excerpt.FirstFew(messages)}
		}
	}
	return Verdict{v1beta2.StateReady, "all objects are ready"}
}

// PullsNoImage reports whether the kubelet cannot pull an image for an observed Pod.
//
// Source: Kubernetes, pkg/kubelet/images, ErrImagePullBackOff and ErrImagePull.
func PullsNoImage(seen []Observation) bool {
	for _, s := range seen {
		if s.Object == nil || s.Object.GroupVersionKind().GroupKind() != object.PodKind {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(s.Object.Object, "status", "containerStatuses")
		for _, c := range containers {
			container, _ := c.(map[string]any)
			switch waits, _, _ := unstructured.NestedString(container, "state", "waiting", "reason"); waits {
			case "ImagePullBackOff", "ErrImagePull":
				return true
			}
		}
	}
	return false
}

// ObjectState returns the state of one object and a message. An object that is being deleted is never ready.
// ObjectState masks secrets in other programs' messages, because reports contain these messages.
func ObjectState(s Observation) (v1beta2.State, string) {
	state, message := lastingState(s)
	if state != v1beta2.StateReady {
		message = excerpt.Redact(message)
	}
	if state == v1beta2.StateReady && s.Object != nil && s.Object.GetDeletionTimestamp() != nil {
		return v1beta2.StateProcessing, "the object is being deleted"
	}
	return state, message
}

func lastingState(s Observation) (v1beta2.State, string) {
	switch {
	case s.KnownReady, s.Completed:
		return v1beta2.StateReady, ""
	case s.Unreadable != "":
		return v1beta2.StateProcessing, "the API server cannot read the object: " + s.Unreadable
	case s.Object == nil:
		return v1beta2.StateProcessing, "the object does not exist yet"
	}
	if len(s.Checks) > 0 {
		return checkedState(s.Object, s.Checks)
	}
	if state, message, ok := kymaState(s.Object); ok {
		return state, message
	}
	if state, message, ok := workloadState(s); ok {
		return state, message
	}
	result, err := status.Compute(s.Object)
	if err != nil { // a CRD's author can use the same names as kstatus' fields for values of other types
		result, err = status.Compute(withStandardStatus(s.Object))
	}
	if err != nil {
		return v1beta2.StateProcessing, err.Error()
	}
	switch result.Status {
	case status.CurrentStatus:
		return v1beta2.StateReady, result.Message
	case status.FailedStatus:
		return v1beta2.StateError, result.Message
	case status.TerminatingStatus:
		return v1beta2.StateProcessing, "the object is being deleted"
	default:
		return v1beta2.StateProcessing, result.Message
	}
}

// checkedState returns the state of an object according to custom state checks: the most severe state whose checks
// all succeed, or Processing.
func checkedState(o *unstructured.Unstructured, checks []v1beta2.CustomStateCheck) (v1beta2.State, string) {
	holds, seen := map[v1beta2.State]bool{}, map[v1beta2.State][]string{}
	var all []string
	for _, c := range checks {
		path := strings.TrimPrefix(c.JSONPath, ".")
		value, found, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
		text := fmt.Sprintf("%s is %v", path, value)
		if !found {
			text = path + " is missing"
		}
		before, known := holds[c.MappedState]
		holds[c.MappedState] = (before || !known) && found && fmt.Sprint(value) == c.Value
		seen[c.MappedState] = append(seen[c.MappedState], text)
		all = append(all, text)
	}
	for _, state := range []v1beta2.State{v1beta2.StateError, v1beta2.StateWarning, v1beta2.StateDeleting,
		v1beta2.StateReady} {
		switch {
		case !holds[state]:
		case state == v1beta2.StateDeleting:
			return v1beta2.StateProcessing, excerpt.FirstFew(seen[state])
		default:
			return state, excerpt.FirstFew(seen[state])
		}
	}
	slices.Sort(all)
	return v1beta2.StateProcessing, excerpt.FirstFew(slices.Compact(all))
}

// kymaState returns status.state of a module CR. ok is false for an object without such a state.
func kymaState(o *unstructured.Unstructured) (state v1beta2.State, message string, ok bool) {
	if !guard.IsCustomGroup(o.GroupVersionKind().Group) {
		return "", "", false
	}
	text, _, _ := unstructured.NestedString(o.Object, "status", "state")
	state = v1beta2.State(text)
	switch state {
	case v1beta2.StateReady, v1beta2.StateProcessing, v1beta2.StateWarning, v1beta2.StateError:
	case v1beta2.StateDeleting:
		return v1beta2.StateProcessing, "the object is being deleted", true
	default:
		return "", "", false
	}
	observed, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if found && observed < o.GetGeneration() {
		return v1beta2.StateProcessing, "its controller has not observed the latest spec yet", true
	}
	return state, cmp.Or(explanation(o), "state is "+text), true
}

// explanation returns the message from the first condition that is False.
func explanation(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		message, _ := condition["message"].(string)
		if condition["status"] == "False" && message != "" {
			state, _, _ := unstructured.NestedString(o.Object, "status", "state")
			return fmt.Sprintf("state is %s: %s", state, message)
		}
	}
	return ""
}

// HasStatus reports whether the status of a kind's objects affects a module's readiness. Other objects only need to
// exist.
func HasStatus(r v1beta2.Resource) bool {
	switch (schema.GroupKind{Group: r.Group, Kind: r.Kind}) {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"},
		schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps", Kind: "DaemonSet"},
		schema.GroupKind{Group: "apps", Kind: "ReplicaSet"},
		object.JobKind,
		object.PodKind,
		object.ClaimKind,
		object.APIServiceKind,
		object.ReplicationControllerKind,
		schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return true
	}
	return guard.IsCustomGroup(r.Group)
}

// Checks returns the custom state checks for a module's default CR.
func Checks(m *v1beta2.Manifest) []v1beta2.CustomStateCheck {
	var checks []v1beta2.CustomStateCheck
	if err := json.Unmarshal([]byte(m.Annotations[v1beta2.AnnotationCustomStateCheck]), &checks); err != nil {
		return nil
	}
	return checks
}
