package bundle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TakeoverPhase is the phase of a runtime's takeover from Kyma's lifecycle-manager. It is empty if no takeover is in
// progress.
type TakeoverPhase string

const (
	// TakeoverAdopt means that the agent adopts modules at their installed versions. The takeover can still be undone.
	TakeoverAdopt TakeoverPhase = "adopt"
	// TakeoverClean means that the agent removes lifecycle-manager's own objects from the runtime. This phase cannot be
	// undone.
	TakeoverClean TakeoverPhase = "clean"
	// TakeoverRelease means that the agent returns the modules to lifecycle-manager and leaves them installed.
	TakeoverRelease TakeoverPhase = "release"
)

// Limits for takeovers.
const (
	// MaxInherited limits the inherited objects of all modules in a runtime.
	MaxInherited = 5_000
	// MaxRemovedReported limits the removed objects in a report.
	MaxRemovedReported = 64
)

// ObjectRef identifies an object in a runtime.
type ObjectRef struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GVK returns the object's group, version and kind.
func (o ObjectRef) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind}
}

// String returns the object in readable form, such as "Deployment kyma-system/keda-manager".
func (o ObjectRef) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// compareObjects ignores the API version, because an object is available in all of its kind's API versions.
func compareObjects(a, b ObjectRef) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// SortObjects returns the objects sorted and without duplicates.
func SortObjects(objects []ObjectRef) []ObjectRef {
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b ObjectRef) int {
		return cmp.Or(compareObjects(a, b), strings.Compare(a.Version, b.Version))
	})
	return slices.CompactFunc(objects, func(a, b ObjectRef) bool { return compareObjects(a, b) == 0 })
}

// Check returns an error if the reference is invalid. The error names the field.
func (o ObjectRef) Check() error {
	if o.Group != "" {
		if problems := validation.IsDNS1123Subdomain(o.Group); len(problems) > 0 {
			return fmt.Errorf("group %s: %s", Quote(o.Group, maxQuotedBytes), problems[0])
		}
	}
	if problems := validation.IsDNS1035Label(o.Version); len(problems) > 0 {
		return fmt.Errorf("version %s: %s", Quote(o.Version, maxQuotedBytes), problems[0])
	}
	if problems := validation.IsDNS1035Label(strings.ToLower(o.Kind)); len(problems) > 0 {
		return fmt.Errorf("kind %s: %s", Quote(o.Kind, maxQuotedBytes), problems[0])
	}
	if o.Namespace != "" {
		if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
			return fmt.Errorf("namespace %s: %s", Quote(o.Namespace, maxQuotedBytes), problems[0])
		}
	}
	// Names of RBAC roles can contain colons, so the name can contain all characters except those that are invalid in a
	// URL path.
	named := WatchedObject{Namespace: o.Namespace, Name: o.Name}
	if !named.IsValid() || strings.ContainsAny(o.Name, "/%") || o.Name == "." || o.Name == ".." {
		return fmt.Errorf("name %s: must be a valid object name of at most %d bytes", Quote(o.Name, maxQuotedBytes),
			maxNameBytes)
	}
	return nil
}

func checkObjects(objects []ObjectRef) error {
	for i, o := range objects {
		if err := o.Check(); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		if i > 0 && compareObjects(objects[i-1], o) >= 0 {
			return fmt.Errorf("[%d]: %s: objects must be unique and sorted by group, kind, namespace and name", i, o)
		}
	}
	return nil
}

func (p TakeoverPhase) isKnown() bool {
	return slices.Contains([]TakeoverPhase{"", TakeoverAdopt, TakeoverClean, TakeoverRelease}, p)
}

// ReportedTakeover is the runtime's progress in the takeover phase of the applied bundle.
type ReportedTakeover struct {
	Phase TakeoverPhase `json:"phase"`
	// Done is true once the agent has completed the phase.
	Done bool `json:"done,omitempty"`
	// Adopted lists the modules whose inherited objects the agent has adopted, sorted. It is empty in phases other than
	// TakeoverAdopt.
	Adopted []string `json:"adopted,omitempty"`
	// Removed lists lifecycle-manager's objects that the agent removed, sorted, at most MaxRemovedReported.
	Removed []ObjectRef `json:"removed,omitempty"`
	// Message is the problem that blocks the phase, in at most MaxMessageBytes.
	Message string `json:"message,omitempty"`
}

func (r Report) checkTakeover() error {
	t := r.Takeover
	if t == nil {
		return nil
	}
	if t.Phase == "" || !t.Phase.isKnown() {
		return fmt.Errorf("takeover.phase %s: must be %s, %s or %s", Quote(string(t.Phase), maxQuotedBytes),
			TakeoverAdopt, TakeoverClean, TakeoverRelease)
	}
	if len(t.Message) > MaxMessageBytes {
		return fmt.Errorf("takeover.message: %d bytes, must be at most %d", len(t.Message), MaxMessageBytes)
	}
	if n := len(t.Adopted); n > MaxManifests {
		return fmt.Errorf("takeover.adopted: %d modules, must be at most %d", n, MaxManifests)
	}
	for i, module := range t.Adopted {
		if module == "" || len(module) > MaxModuleNameBytes {
			return fmt.Errorf("takeover.adopted[%d]: %d bytes, must be 1 to %d", i, len(module), MaxModuleNameBytes)
		}
	}
	if n := len(t.Removed); n > MaxRemovedReported {
		return fmt.Errorf("takeover.removed: %d objects, must be at most %d", n, MaxRemovedReported)
	}
	if err := checkObjects(t.Removed); err != nil {
		return fmt.Errorf("takeover.removed%w", err)
	}
	return nil
}
