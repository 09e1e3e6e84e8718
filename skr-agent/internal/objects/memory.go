package objects

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// agentMemory is the agent's saved copy of the runtime's Kyma and Manifests. If a user deletes them, the agent restores
// them from this copy.
type agentMemory struct {
	// Kyma is the runtime Kyma's last known spec. It is nil if unknown.
	Kyma *v1beta2.KymaSpec `json:"kyma,omitempty"`
	// Pins is the value of the Kyma's annotation with pinned versions.
	Pins string `json:"pins,omitempty"`
	// Manifests are sorted by name.
	Manifests []savedManifest `json:"manifests,omitempty"`
	// Checks contains module check results, sorted by module.
	Checks []checks.Record `json:"checks,omitempty"`
}

// savedManifest is the saved copy of a Manifest. Synced is the Manifest's inventory: the module's objects.
type savedManifest struct {
	Name        string               `json:"name"`
	Labels      map[string]string    `json:"labels,omitempty"`
	Annotations map[string]string    `json:"annotations,omitempty"`
	Spec        v1beta2.ManifestSpec `json:"spec"`
	Synced      []v1beta2.Resource   `json:"synced,omitempty"`
	// Revision is the highest known revision of the Manifest's record.
	Revision int64 `json:"revision,omitempty"`
	// RemovalUID is the UID of a Manifest whose removal the bundle requests. It is empty for other Manifests.
	RemovalUID types.UID `json:"leaving,omitempty"`
	// RemovalRecorded is true if the agent has seen the removal in the Manifest's record. If the removal disappears
	// from the record after that, the agent does not remove the Manifest anymore.
	RemovalRecorded bool `json:"marked,omitempty"`
}

// observe returns the memory, updated from the runtime's current Kyma and Manifests. b is the last accepted bundle. A
// deleted Manifest stays in the memory if b contains it, if b removes it but the removal has not begun, or if b is nil.
// records reads the Manifests' signed records. inventories contains the inventories that the agent wrote, including
// objects that another client has removed from them. kyma, b and inventories can be nil.
func (m agentMemory) observe(
	records record.Store, inventories *record.Inventories, kyma *v1beta2.Kyma, manifests []v1beta2.Manifest,
	b *bundle.Bundle,
) agentMemory {
	next := agentMemory{Kyma: m.Kyma, Pins: m.Pins, Checks: m.Checks}
	if kyma != nil && kyma.DeletionTimestamp.IsZero() {
		next.Kyma, next.Pins = kyma.Spec.DeepCopy(), kyma.Annotations[v1beta2.AnnotationPinnedVersions]
	}
	seen := map[string]bool{}
	for i := range manifests {
		live := &manifests[i]
		seen[live.Name] = true
		before := m.findManifest(live.Name)
		now := savedManifest{
			Name: live.Name, Labels: maps.Clone(live.Labels), Annotations: maps.Clone(live.Annotations),
			Spec: *live.Spec.DeepCopy(), Synced: slices.Concat(live.Status.Synced, inventories.Missing(live)),
		}
		if records.IsEarlier(live) && before != nil {
			now.keepRecord(before)
		}
		restoring, removed := record.ReadUnverified(live).Restoring, records.HasRemoval(live)
		switch isLeaving := before != nil && before.isBeingRemoved(live); {
		case removed || isLeaving:
			if restoring && before != nil {
				now = *before // keep the saved inventory until the live one is restored
			}
			now.RemovalUID, now.RemovalRecorded = live.UID, removed
		case before != nil && before.RemovalUID == "" && (!live.DeletionTimestamp.IsZero() || restoring):
			now = *before // keep the saved inventory, because the live one may be incomplete
		}
		now.Revision = records.Revisions.Of(live)
		next.Manifests = append(next.Manifests, now)
	}
	isKnown := knownTo(b)
	for _, gone := range m.Manifests {
		if !seen[gone.Name] && gone.RemovalUID == "" && isKnown(gone) {
			next.Manifests = append(next.Manifests, gone)
		}
	}
	slices.SortFunc(next.Manifests, func(a, b savedManifest) int { return cmp.Compare(a.Name, b.Name) })
	return next
}

// keepRecord copies the record from another saved copy of the Manifest.
func (r *savedManifest) keepRecord(from *savedManifest) {
	delete(r.Annotations, v1beta2.AnnotationRecord)
	text, has := from.Annotations[v1beta2.AnnotationRecord]
	if !has {
		return
	}
	if r.Annotations == nil {
		r.Annotations = map[string]string{}
	}
	r.Annotations[v1beta2.AnnotationRecord] = text
}

// isBeingRemoved reports whether the bundle removes a live Manifest whose record does not contain the removal yet. The
// Manifest comes from a cache, which can be outdated.
func (r *savedManifest) isBeingRemoved(live *v1beta2.Manifest) bool {
	return r.RemovalUID != "" && r.RemovalUID == live.UID && !r.RemovalRecorded && live.DeletionTimestamp.IsZero()
}

func (m agentMemory) findManifest(name string) *savedManifest {
	if i := slices.IndexFunc(m.Manifests, func(r savedManifest) bool { return r.Name == name }); i >= 0 {
		return &m.Manifests[i]
	}
	return nil
}

// withRemoval returns a copy of the memory in which a Manifest has the given RemovalUID.
func (m agentMemory) withRemoval(name string, uid types.UID) agentMemory {
	next := agentMemory{Kyma: m.Kyma, Pins: m.Pins, Manifests: slices.Clone(m.Manifests), Checks: m.Checks}
	if known := next.findManifest(name); known != nil {
		known.RemovalUID, known.RemovalRecorded = uid, false
	} else if uid != "" {
		next.Manifests = append(next.Manifests, savedManifest{Name: name, RemovalUID: uid})
	}
	return next
}

// recovery lists the steps that restore the Kyma and the Manifests from the memory.
type recovery struct {
	// createKyma is true if the runtime's Kyma must be created again.
	createKyma bool
	// release contains Manifests that another client is deleting. The agent removes their finalizers and keeps their
	// modules' objects.
	release []v1beta2.Manifest
	// restore contains Manifests to create again.
	restore []savedManifest
	// unfinished contains Manifests that a bundle removes, but whose inventory is not restored yet. The inventory must
	// be restored first, so that the removal deletes all objects.
	unfinished []savedManifest
}

func (r recovery) isEmpty() bool {
	return !r.createKyma && len(r.release)+len(r.restore)+len(r.unfinished) == 0
}

// knownTo returns a function that reports whether a bundle contains or removes a Manifest. For a nil bundle, the
// function always returns true.
func knownTo(b *bundle.Bundle) func(savedManifest) bool {
	if b == nil {
		return func(savedManifest) bool { return true }
	}
	names := map[string]bool{}
	for _, manifest := range slices.Concat(b.State.All(), b.State.Offers) {
		names[manifest.Name] = true
	}
	return func(m savedManifest) bool { return names[m.Name] || isRemovedBy(b, m) }
}

// isRemovedBy reports whether a bundle removes a module.
func isRemovedBy(b *bundle.Bundle, m savedManifest) bool {
	return b.Statement.Predicate.Deleting || slices.Contains(b.Statement.Predicate.Removals, m.manifest().Module())
}

// manifest returns the Manifest without its inventory. The result shares its labels, annotations and spec with the
// saved copy.
func (r *savedManifest) manifest() *v1beta2.Manifest {
	return &v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: r.Name, Labels: r.Labels, Annotations: r.Annotations,
		},
		Spec: r.Spec,
	}
}

// unremovedModules returns the modules that the bundle removes but whose removal has not begun.
func (m agentMemory) unremovedModules(b *bundle.Bundle) (all []string) {
	for _, known := range m.Manifests {
		if b != nil && known.RemovalUID == "" && isRemovedBy(b, known) {
			all = append(all, known.manifest().Module())
		}
	}
	return all
}

// planRecovery returns the steps that restore the Kyma and the Manifests. b is the last accepted bundle, or nil. The
// agent restores a Manifest only if the bundle contains or removes it. Without its Manifest, a removed module would
// leave its objects behind.
func (m agentMemory) planRecovery(kyma *v1beta2.Kyma, manifests []v1beta2.Manifest, b *bundle.Bundle) recovery {
	todo := recovery{createKyma: kyma == nil && m.Kyma != nil}
	isKnown := knownTo(b)
	live := map[string]*v1beta2.Manifest{}
	for i := range manifests {
		live[manifests[i].Name] = &manifests[i]
	}
	for _, known := range m.Manifests {
		switch found := live[known.Name]; {
		case known.RemovalUID != "":
			if found != nil && found.UID == known.RemovalUID && record.ReadUnverified(found).Restoring {
				todo.unfinished = append(todo.unfinished, known)
			}
		case found == nil:
			if isKnown(known) {
				todo.restore = append(todo.restore, known)
			}
		case !found.DeletionTimestamp.IsZero():
			// If no bundle is known, an earlier bundle may have requested the removal, so keep the finalizer.
			if b != nil && !slices.Contains(b.Statement.Predicate.Removals, found.Module()) &&
				controllerutil.ContainsFinalizer(found, v1beta2.FinalizerManifest) {
				todo.release = append(todo.release, *found)
			}
		case record.ReadUnverified(found).Restoring:
			todo.restore = append(todo.restore, known)
		}
	}
	return todo
}
