package bundle

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Limits for watchers. Each watcher opens a watch in every runtime.
const (
	MaxWatchers          = 32
	MaxWatchedReported   = 64
	MaxWatchedNamesBytes = 8 << 10
	maxWatcherLabels     = 16
	maxNameBytes         = 253
	maxNamespaceBytes    = 63
)

// Watcher requests immediate reports about changes to one resource in the runtime.
type Watcher struct {
	// Name is the name of the Watcher in the control plane.
	Name     string `json:"name"`
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	// Labels select the objects. Without labels, all objects of the resource are watched.
	Labels map[string]string `json:"labels,omitempty"`
	// Field is the part of an object whose changes are reported: "spec" or "status".
	Field v1beta2.FieldName `json:"field"`
}

// Values for Watcher.Field.
const (
	FieldSpec   v1beta2.FieldName = "spec"
	FieldStatus v1beta2.FieldName = "status"
)

// GVR returns the watched resource.
func (w Watcher) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: w.Group, Version: w.Version, Resource: w.Resource}
}

// Check returns an error if the Watcher is invalid, for example if it watches Secrets. The control plane and the agent
// call it.
func (w Watcher) Check() error {
	if problems := validation.IsDNS1123Subdomain(w.Name); len(problems) > 0 {
		return fmt.Errorf("name %q: %s", w.Name, problems[0])
	}
	if w.Group != "" {
		if problems := validation.IsDNS1123Subdomain(w.Group); len(problems) > 0 {
			return fmt.Errorf("resourceToWatch.group %q: %s", w.Group, problems[0])
		}
	}
	if problems := validation.IsDNS1035Label(w.Version); len(problems) > 0 {
		return fmt.Errorf("resourceToWatch.version %q: must be one version such as v1: %s", w.Version, problems[0])
	}
	if problems := validation.IsDNS1035Label(w.Resource); len(problems) > 0 {
		return fmt.Errorf(
			"resourceToWatch.resource %q: must be a lower-case plural such as configmaps, without a subresource: %s",
			w.Resource, problems[0])
	}
	if w.Group == "" && w.Resource == "secrets" {
		return errors.New("resourceToWatch: secrets cannot be watched: watch the resource that uses them")
	}
	if w.Field != FieldSpec && w.Field != FieldStatus {
		return fmt.Errorf("field %q: must be spec or status", w.Field)
	}
	if len(w.Labels) > maxWatcherLabels {
		return fmt.Errorf("labelsToWatch: %d labels, must be at most %d", len(w.Labels), maxWatcherLabels)
	}
	if problems := metav1validation.ValidateLabels(w.Labels, field.NewPath("labelsToWatch")); len(problems) > 0 {
		return problems[0]
	}
	return nil
}

// Selector returns the label selector for the watched objects.
func (w Watcher) Selector() string {
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: w.Labels})
}

func checkWatchers(watchers []Watcher) error {
	if len(watchers) > MaxWatchers {
		return fmt.Errorf("desired state: watchers: %d entries, must be at most %d", len(watchers), MaxWatchers)
	}
	for i, w := range watchers {
		if err := w.Check(); err != nil {
			return fmt.Errorf("desired state: watchers[%d]: %w", i, err)
		}
		if slices.ContainsFunc(watchers[:i], func(other Watcher) bool { return other.Name == w.Name }) {
			return fmt.Errorf("desired state: watchers[%d]: %s appears twice", i, w.Name)
		}
	}
	return nil
}

// ReportedWatch contains the changes that one watcher observed in the runtime.
type ReportedWatch struct {
	// Watcher is the name of the watcher.
	Watcher string `json:"watcher"`
	// Changes is the number of changes since the agent started the watch.
	Changes int64 `json:"changes,omitempty"`
	// Since is the sequence of the first report that contained the latest change or the current Trouble.
	Since int64 `json:"since,omitempty"`
	// Objects are the last changed objects, newest first and without duplicates.
	Objects []WatchedObject `json:"objects,omitempty"`
	// Trouble is the reason why the watch fails, at most MaxMessageBytes.
	Trouble string `json:"trouble,omitempty"`
}

// WatchedObject identifies an object that changed.
type WatchedObject struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Since is the sequence of the first report that contained the latest change to the object.
	Since int64 `json:"since"`
}

// IsValid reports whether the name is a valid name of a Kubernetes object.
func (o WatchedObject) IsValid() bool {
	if o.Name == "" || len(o.Name) > maxNameBytes || len(o.Namespace) > maxNamespaceBytes {
		return false
	}
	for _, r := range o.Namespace + o.Name {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return true
}
