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

// Limits of watching. A watcher is one open watch in every runtime; what a report tells of all of them must leave room
// for the modules.
const (
	MaxWatchers          = 32
	MaxWatchedReported   = 64
	MaxWatchedNamesBytes = 8 << 10
	maxLabelsOfWatcher   = 16
	maxNameBytes         = 253
	maxNamespaceBytes    = 63
)

// Watcher asks for changes of a kind of object in the runtime to be told at once.
type Watcher struct {
	// Name is that of the Watcher in the control plane.
	Name     string `json:"name"`
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	// Labels select the objects; without any, all objects of the kind are watched.
	Labels map[string]string `json:"labels,omitempty"`
	// Field is the part of an object whose changes count: "spec" or "status".
	Field v1beta2.FieldName `json:"field"`
}

// The parts of an object that can be watched.
const (
	FieldSpec   v1beta2.FieldName = "spec"
	FieldStatus v1beta2.FieldName = "status"
)

// GVR is the kind of object that is watched.
func (w Watcher) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: w.Group, Version: w.Version, Resource: w.Resource}
}

// Check says why this cannot be watched. Both sides ask: the control plane to tell its user, the runtime because it
// lets nobody look at its Secrets.
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
		return fmt.Errorf("resourceToWatch.version %q: want one version such as v1: %s", w.Version, problems[0])
	}
	if problems := validation.IsDNS1035Label(w.Resource); len(problems) > 0 {
		return fmt.Errorf("resourceToWatch.resource %q: want the plural in lower case, such as configmaps, without a subresource: %s", w.Resource, problems[0])
	}
	if w.Group == "" && w.Resource == "secrets" {
		return errors.New("resourceToWatch: secrets are never watched in runtimes: watch the resource that is made from them")
	}
	if w.Field != FieldSpec && w.Field != FieldStatus {
		return fmt.Errorf("field %q: want spec or status", w.Field)
	}
	if len(w.Labels) > maxLabelsOfWatcher {
		return fmt.Errorf("labelsToWatch: %d labels, at most %d", len(w.Labels), maxLabelsOfWatcher)
	}
	if problems := metav1validation.ValidateLabels(w.Labels, field.NewPath("labelsToWatch")); len(problems) > 0 {
		return problems[0]
	}
	return nil
}

// Selector returns the label selector of the watched objects.
func (w Watcher) Selector() string {
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: w.Labels})
}

func checkWatchers(watchers []Watcher) error {
	if len(watchers) > MaxWatchers {
		return fmt.Errorf("desired state: watchers: %d, at most %d", len(watchers), MaxWatchers)
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

// ReportedWatch is what one watcher saw in the runtime.
type ReportedWatch struct {
	// Watcher is its name.
	Watcher string `json:"watcher"`
	// Changes counts what was seen since the agent began to watch.
	Changes int64 `json:"changes,omitempty"`
	// Since is a report's sequence: no report up to it told of the newest change or trouble, and the one that first did
	// has this sequence or a higher one. So a reader tells news by the sequence of the last report it read, and needs no
	// other memory.
	Since int64 `json:"since,omitempty"`
	// Objects are those that changed last, newest first, each once. All watches together name at most MaxWatchedReported.
	Objects []WatchedObject `json:"objects,omitempty"`
	// Trouble is why nothing is seen, at most MaxMessageBytes.
	Trouble string `json:"trouble,omitempty"`
}

// WatchedObject is an object that changed.
type WatchedObject struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Since is as that of ReportedWatch.
	Since int64 `json:"since"`
}

// Valid reports whether an object of the API server can have this name: a report is the runtime's word.
func (o WatchedObject) Valid() bool {
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
