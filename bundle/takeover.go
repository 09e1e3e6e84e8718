package bundle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TakeoverPhase says how far a runtime is taken over from another product that managed its modules before, Kyma's
// lifecycle-manager. Empty is a runtime that is not being taken over.
type TakeoverPhase string

const (
	// TakeoverAdopt has modules adopted at the versions that are installed; nothing of the other product is removed, so
	// that it can go on.
	TakeoverAdopt TakeoverPhase = "adopt"
	// TakeoverClean removes what the other product itself left in the runtime. There is no way back from it.
	TakeoverClean TakeoverPhase = "clean"
	// TakeoverRelease gives the modules back: they stay installed, and nothing in the runtime is the agent's any more.
	TakeoverRelease TakeoverPhase = "release"
)

// Limits of taking over.
const (
	// MaxInherited bounds the inherited objects of all modules of a runtime. Kyma's twenty modules have about 700.
	MaxInherited = 5_000
	// MaxRemovedReported bounds the removed objects that a report names.
	MaxRemovedReported = 64
)

// ObjectRef names an object in a runtime.
type ObjectRef struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GVK is the object's kind.
func (o ObjectRef) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind}
}

// String returns the object as people name it, such as "Deployment kyma-system/keda-manager".
func (o ObjectRef) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// compareObjects orders objects. Versions of one kind show the same objects, so that they count for nothing.
func compareObjects(a, b ObjectRef) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// SortObjects returns the objects in the order of the wire, each once, as Manifest.Inherited and
// ReportedTakeover.Removed want them.
func SortObjects(objects []ObjectRef) []ObjectRef {
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b ObjectRef) int { return cmp.Or(compareObjects(a, b), strings.Compare(a.Version, b.Version)) })
	return slices.CompactFunc(objects, func(a, b ObjectRef) bool { return compareObjects(a, b) == 0 })
}

// Check returns why no API server can have such an object, naming the field. A publisher leaves such an object out: one
// of them would have the whole bundle refused.
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
	// Roles may have colons in their names, so that only what a path cannot hold is refused.
	named := WatchedObject{Namespace: o.Namespace, Name: o.Name}
	if !named.Valid() || strings.ContainsAny(o.Name, "/%") || o.Name == "." || o.Name == ".." {
		return fmt.Errorf("name %s: want the name of an object, at most %d bytes", Quote(o.Name, maxQuotedBytes), maxNameBytes)
	}
	return nil
}

// checkObjects checks that objects are objects, in the order of the wire, each once.
func checkObjects(objects []ObjectRef) error {
	for i, o := range objects {
		if err := o.Check(); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		if i > 0 && compareObjects(objects[i-1], o) >= 0 {
			return fmt.Errorf("[%d]: %s: want objects sorted by group, kind, namespace and name, each once", i, o)
		}
	}
	return nil
}

// checkTakeover checks the phase and what modules inherit.
func (s DesiredState) checkTakeover() error {
	if !s.Takeover.known() {
		return fmt.Errorf("takeover %s: want %s, %s, %s or nothing", Quote(string(s.Takeover), maxQuotedBytes), TakeoverAdopt, TakeoverClean, TakeoverRelease)
	}
	inherited := 0
	for i, m := range s.All() {
		if err := checkObjects(m.Inherited); err != nil {
			return fmt.Errorf("manifests[%d].inherited%w", i, err)
		}
		inherited += len(m.Inherited)
	}
	if inherited > MaxInherited {
		return fmt.Errorf("manifests inherit %d objects in all, at most %d", inherited, MaxInherited)
	}
	for i, m := range s.Offers {
		if len(m.Inherited) > 0 {
			return fmt.Errorf("offers[%d].inherited: only manifests inherit objects", i)
		}
	}
	return nil
}

func (p TakeoverPhase) known() bool {
	return slices.Contains([]TakeoverPhase{"", TakeoverAdopt, TakeoverClean, TakeoverRelease}, p)
}

// ReportedTakeover says how far the runtime is with the phase of the bundle in force, which the report's Observed
// names.
type ReportedTakeover struct {
	Phase TakeoverPhase `json:"phase"`
	// Done says that everything of the phase is done: all modules that inherit objects are adopted, the other product's
	// leftovers are gone, or everything was given back.
	Done bool `json:"done,omitempty"`
	// Adopted are the modules that inherited objects and are the agent's now, sorted. It is there in the phase adopt.
	Adopted []string `json:"adopted,omitempty"`
	// Removed are objects that were removed as leftovers, sorted, at most MaxRemovedReported. An object of which only
	// marks were removed is not among them.
	Removed []ObjectRef `json:"removed,omitempty"`
	// Message says what is in the way while it is not done, at most MaxMessageBytes.
	Message string `json:"message,omitempty"`
}

// checkTakeover checks what a runtime says of being taken over.
func (r Report) checkTakeover() error {
	t := r.Takeover
	if t == nil {
		return nil
	}
	if t.Phase == "" || !t.Phase.known() {
		return fmt.Errorf("takeover.phase %s: want %s, %s or %s", Quote(string(t.Phase), maxQuotedBytes), TakeoverAdopt, TakeoverClean, TakeoverRelease)
	}
	if len(t.Message) > MaxMessageBytes {
		return fmt.Errorf("takeover.message: %d bytes, at most %d", len(t.Message), MaxMessageBytes)
	}
	if n := len(t.Adopted); n > MaxManifests {
		return fmt.Errorf("takeover.adopted: %d modules, at most %d", n, MaxManifests)
	}
	for i, module := range t.Adopted {
		if module == "" || len(module) > MaxModuleNameBytes {
			return fmt.Errorf("takeover.adopted[%d]: %d bytes, want 1 to %d", i, len(module), MaxModuleNameBytes)
		}
	}
	if n := len(t.Removed); n > MaxRemovedReported {
		return fmt.Errorf("takeover.removed: %d objects, at most %d", n, MaxRemovedReported)
	}
	if err := checkObjects(t.Removed); err != nil {
		return fmt.Errorf("takeover.removed%w", err)
	}
	return nil
}
