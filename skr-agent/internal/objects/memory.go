package objects

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// Memory is what the runtime had when the agent looked last: it outlives the objects themselves, and their definitions.
type Memory struct {
	// Kyma is what the runtime's admin asked for last, nil before that is known.
	Kyma *v1beta2.KymaSpec `json:"kyma,omitempty"`
	// Pins is the annotation of that Kyma that pins versions.
	Pins string `json:"pins,omitempty"`
	// Manifests are sorted by name.
	Manifests []Remembered `json:"manifests,omitempty"`
	// Checks are the results of modules' checks, sorted by module.
	Checks []checks.Record `json:"checks,omitempty"`
}

// Remembered is a Manifest with what its module brought into the cluster.
type Remembered struct {
	Name        string               `json:"name"`
	Labels      map[string]string    `json:"labels,omitempty"`
	Annotations map[string]string    `json:"annotations,omitempty"`
	Spec        v1beta2.ManifestSpec `json:"spec"`
	Synced      []v1beta2.Resource   `json:"synced,omitempty"`
	// Leaving is the UID of the Manifest that a bundle asked to remove, empty for one that is to stay.
	Leaving types.UID `json:"leaving,omitempty"`
	// Marked says that the one that is leaving was seen with the mark of its removal: once that is gone, it is to stay
	// after all.
	Marked bool `json:"marked,omitempty"`
}

// Observe returns the memory after a look at the runtime; kyma is nil while there is none. What is gone without a
// bundle's asking for it stays in memory for as long as b names it, the bundle in force, or there is none: nobody can
// fill the memory with what is gone.
func (m Memory) Observe(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest, b *bundle.Bundle) Memory {
	next := Memory{Kyma: m.Kyma, Pins: m.Pins, Checks: m.Checks}
	if kyma != nil && kyma.DeletionTimestamp.IsZero() {
		next.Kyma, next.Pins = kyma.Spec.DeepCopy(), kyma.Annotations[v1beta2.AnnotationPinnedVersions]
	}
	seen := map[string]bool{}
	for i := range manifests {
		live := &manifests[i]
		seen[live.Name] = true
		before := m.manifest(live.Name)
		now := Remembered{
			Name: live.Name, Labels: maps.Clone(live.Labels), Annotations: withoutMarks(live.Annotations), Spec: *live.Spec.DeepCopy(), Synced: slices.Clone(live.Status.Synced),
		}
		restoring := live.Annotations[v1beta2.AnnotationRestoring] == v1beta2.True
		switch isLeaving := before != nil && before.isLeaving(live); {
		case live.IsRemoved() || isLeaving:
			if restoring && before != nil {
				now = *before // it has the list of its objects not yet again
			}
			now.Leaving, now.Marked = live.UID, live.IsRemoved()
		case before != nil && before.Leaving == "" && (!live.DeletionTimestamp.IsZero() || restoring):
			now = *before // its status may not say yet, or not any more, what the module brought
		}
		next.Manifests = append(next.Manifests, now)
	}
	named := namedBy(b)
	for _, gone := range m.Manifests {
		if !seen[gone.Name] && gone.Leaving == "" && named(gone.Name) {
			next.Manifests = append(next.Manifests, gone)
		}
	}
	slices.SortFunc(next.Manifests, func(a, b Remembered) int { return cmp.Compare(a.Name, b.Name) })
	return next
}

// isLeaving reports whether a Manifest without the mark of its removal is leaving all the same: what is seen may be
// older than the mark. The agent marks before it deletes, so that one that is being deleted without the mark was
// deleted by somebody else.
func (r *Remembered) isLeaving(live *v1beta2.Manifest) bool {
	return r.Leaving != "" && r.Leaving == live.UID && !r.Marked && live.DeletionTimestamp.IsZero()
}

func (m Memory) manifest(name string) *Remembered {
	if i := slices.IndexFunc(m.Manifests, func(r Remembered) bool { return r.Name == name }); i >= 0 {
		return &m.Manifests[i]
	}
	return nil
}

// leaving returns the memory with the UID of the Manifest that a bundle asked to remove, or empty for one that is to
// stay after all.
func (m Memory) leaving(name string, uid types.UID) Memory {
	next := Memory{Kyma: m.Kyma, Pins: m.Pins, Manifests: slices.Clone(m.Manifests), Checks: m.Checks}
	if known := next.manifest(name); known != nil {
		known.Leaving, known.Marked = uid, false
	} else if uid != "" {
		next.Manifests = append(next.Manifests, Remembered{Name: name, Leaving: uid})
	}
	return next
}

// recovery is what is to be done so that the runtime has again what it had.
type recovery struct {
	// kyma says that the runtime's Kyma is to be made again.
	kyma bool
	// release are Manifests that are being deleted although no bundle asked for it: their objects stay.
	release []v1beta2.Manifest
	// restore are Manifests to be made again, or whose making was interrupted.
	restore []Remembered
	// finish are Manifests on their way out whose making was interrupted, or which somebody marked so: nothing removes
	// their modules before.
	finish []Remembered
}

func (r recovery) isEmpty() bool { return !r.kyma && len(r.release)+len(r.restore)+len(r.finish) == 0 }

// namedBy returns whether a bundle names a Manifest. Without a bundle nobody knows, and all count as named.
func namedBy(b *bundle.Bundle) func(string) bool {
	if b == nil {
		return func(string) bool { return true }
	}
	names := map[string]bool{}
	for _, manifest := range slices.Concat(b.State.All(), b.State.Offers) {
		names[manifest.Name] = true
	}
	return func(name string) bool { return names[name] }
}

// missing decides what comes back, with the bundle in force, nil for none. A Manifest that this does not name does not:
// an agent that remembers nothing, as older ones, may have removed it meanwhile.
func (m Memory) missing(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest, b *bundle.Bundle) recovery {
	todo := recovery{kyma: kyma == nil && m.Kyma != nil}
	named := namedBy(b)
	live := map[string]*v1beta2.Manifest{}
	for i := range manifests {
		live[manifests[i].Name] = &manifests[i]
	}
	for _, known := range m.Manifests {
		switch found := live[known.Name]; {
		case known.Leaving != "":
			if found != nil && found.UID == known.Leaving && found.Annotations[v1beta2.AnnotationRestoring] == v1beta2.True {
				todo.finish = append(todo.finish, known)
			}
		case found == nil:
			if named(known.Name) {
				todo.restore = append(todo.restore, known)
			}
		case !found.DeletionTimestamp.IsZero():
			// Without a bundle nobody knows which deletion is meant.
			if b != nil && !slices.Contains(b.Statement.Predicate.Removals, found.Module()) && controllerutil.ContainsFinalizer(found, v1beta2.FinalizerManifest) {
				todo.release = append(todo.release, *found)
			}
		case found.Annotations[v1beta2.AnnotationRestoring] == v1beta2.True:
			todo.restore = append(todo.restore, known)
		}
	}
	return todo
}

// withoutMarks drops annotations that are about this one object.
func withoutMarks(annotations map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range annotations {
		if name != v1beta2.AnnotationRemoval && name != v1beta2.AnnotationRestoring {
			kept[name] = value
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}
