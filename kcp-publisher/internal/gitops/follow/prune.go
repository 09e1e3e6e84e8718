package follow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Pruning limits the deletions of a commit without an approval.
type Pruning struct {
	// All lets a commit delete any number of objects of earlier commits, including all objects and all Kymas.
	All bool
	// MaxPercent and MaxCount limit the objects that a commit deletes. A commit that exceeds both is held. The limits
	// do not apply to Kymas with a live runtime and to objects that make a module mandatory, because their deletion
	// always needs permission.
	MaxPercent, MaxCount int
	// Allowed is the commit that an operator allowed to delete any objects.
	Allowed string
}

// allows reports whether a commit can delete any objects.
func (p Pruning) allows(commit string) bool { return p.All || commit != "" && p.Allowed == commit }

// PruneError is the error of a commit that waits for permission to prune.
type PruneError struct {
	Commit string
	// Live contains Kymas whose runtimes would be emptied. Mandatory contains objects whose deletion would remove a
	// module from every runtime. Rest contains the other objects to delete. Total is the number of objects of earlier
	// commits that Limits apply to.
	Live, Mandatory, Rest []Key
	Total                 int
	Limits                Pruning
}

func (e *PruneError) Error() string {
	var parts []string
	if len(e.Live) > 0 {
		parts = append(parts,
			fmt.Sprintf("%d Kymas with a live runtime, which would be emptied: %s", len(e.Live), named(e.Live)))
	}
	if len(e.Mandatory) > 0 {
		parts = append(parts,
			fmt.Sprintf("%d objects of mandatory modules, which would be removed from every runtime: %s",
				len(e.Mandatory), named(e.Mandatory)))
	}
	if len(e.Rest) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d other objects (at most %d or %d%% without permission): %s",
			len(e.Rest), e.Total, e.Limits.MaxCount, e.Limits.MaxPercent, named(e.Rest)))
	}
	return "would prune " + strings.Join(parts, "; ")
}

// maxNamed limits the number of objects in one message.
const maxNamed = 10

func named(keys []Key) string {
	var names []string
	for _, key := range keys[:min(len(keys), maxNamed)] {
		names = append(names, key.String())
	}
	if more := len(keys) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// loss describes the objects that a commit removes.
type loss struct {
	// objects is the number of objects of earlier commits. kept is the number of these objects that the commit
	// contains, and pruned is the number that it deletes.
	objects, kept, pruned counts
	// live contains the deleted Kymas with a known runtime. mandatory contains the deleted objects that make a module
	// mandatory. rest contains the other deleted objects, to which the limits apply. limited is the number of all
	// objects of earlier commits to which the limits apply.
	live, mandatory, rest []Key
	limited               int
}

// counts contains the number of objects, and the number of Kymas among these objects.
type counts struct{ all, kymas int }

func (c *counts) add(key Key) {
	c.all++
	if key.Kind.Kind == kindKyma {
		c.kymas++
	}
}

// planPrune adds the pruned and protected objects of earlier commits to a plan. kept contains the objects of the
// commit.
func (p *Plan) planPrune(live map[Key]*unstructured.Unstructured, before Inventory, kept map[Key]bool) loss {
	var lost loss
	isAdded := map[Key]bool{}
	for _, key := range before.Added {
		isAdded[key] = true
	}
	for _, key := range before.Keys {
		lost.objects.add(key)
		if kept[key] {
			lost.kept.add(key)
		}
		asks := asksFor(key, live[key], isAdded[key])
		if asks == asksBeyondLimits {
			lost.limited++
		}
		switch object := live[key]; {
		case kept[key], object == nil, object.GetDeletionTimestamp() != nil,
			object.GetAnnotations()[v1beta2.AnnotationGitCommit] == "":
			// Do not prune an object that the commit contains, that is already deleted, or that no longer belongs to
			// the repository because it has no annotation of a commit.
		case object.GetAnnotations()[v1beta2.AnnotationPrune] == v1beta2.PruneDisabled:
			p.Protected = append(p.Protected, key)
			p.Inventory = append(p.Inventory, key) // so that it is pruned after the annotation is removed
		default:
			p.Prune = append(p.Prune, key)
			lost.pruned.add(key)
			lost.add(key, asks)
		}
	}
	return lost
}

// permission returns why a commit must wait for an approval, or nil. The error means that the commit is refused,
// because it is most likely a mistake.
func (l *loss) permission(commit string, limits Pruning) (*PruneError, error) {
	switch {
	case l.pruned.all > 0 && l.kept.all == 0:
		return nil,
			fmt.Errorf("the commit removes all %d objects of earlier commits: if this is intended, %s", l.objects.all,
				howToAllow(commit))
	case l.pruned.kymas > 0 && l.kept.kymas == 0:
		return nil,
			fmt.Errorf(
				"the commit removes all %d Kymas of earlier commits and empties their runtimes: if this is intended, "+
					"%s",
				l.objects.kymas, howToAllow(commit))
	}
	held := &PruneError{
		Commit: commit, Live: l.live, Mandatory: l.mandatory, Rest: l.rest, Total: l.limited, Limits: limits,
	}
	if len(held.Rest) <= limits.MaxCount || len(held.Rest)*100 <= held.Total*limits.MaxPercent {
		held.Rest = nil
	}
	if len(held.Live)+len(held.Mandatory)+len(held.Rest) == 0 {
		return nil, nil
	}
	return held, nil
}

// planDisown adds the objects to disown. They have the annotation of a commit, but are not in this commit or in the
// inventory, for example because they existed before a partially applied commit changed them.
func (p *Plan) planDisown(live map[Key]*unstructured.Unstructured, before Inventory, kept map[Key]bool) {
	known := map[Key]bool{}
	for _, key := range before.Keys {
		known[key] = true
	}
	for key, object := range live {
		if _, marked := object.GetAnnotations()[v1beta2.AnnotationGitCommit]; marked && !kept[key] && !known[key] &&
			object.GetDeletionTimestamp() == nil {
			p.Disown = append(p.Disown, key)
		}
	}
	slices.SortFunc(p.Disown, func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Kind.Kind, b.Kind.Kind), strings.Compare(a.Name, b.Name))
	})
}

// permission is the permission that the deletion of an object needs.
type permission int

const (
	asksNothing permission = iota
	asksBeyondLimits
	asksForRuntime
	asksForMandatory
)

// asksFor returns the permission that the deletion of an object needs. An object that only a partially applied commit
// created needs no permission, unless it is a Kyma with a published bundle. A runtime without a bundle has no modules
// to lose.
func asksFor(key Key, object *unstructured.Unstructured, added bool) permission {
	isKyma := key.Kind.Kind == kindKyma
	switch {
	case added && (!isKyma || !hasRuntimeField(object, "published")):
		return asksNothing
	case isKyma && hasRuntime(object):
		return asksForRuntime
	case isMandatory(object):
		return asksForMandatory
	case added:
		return asksNothing
	}
	return asksBeyondLimits
}

func (l *loss) add(key Key, asks permission) {
	switch asks {
	case asksForRuntime:
		l.live = append(l.live, key)
	case asksForMandatory:
		l.mandatory = append(l.mandatory, key)
	case asksBeyondLimits:
		l.rest = append(l.rest, key)
	case asksNothing:
	}
}

// isMandatory reports whether an object makes a module mandatory. If the object is deleted, every runtime loses the
// module.
func isMandatory(object *unstructured.Unstructured) bool {
	if object == nil {
		return false
	}
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "mandatory")
	switch object.GetKind() {
	case "ModuleReleaseMeta":
		return err != nil || found && value != nil
	case "ModuleTemplate":
		return err != nil || value == true
	}
	return false
}

// hasRuntime reports whether a Kyma has a known runtime. The runtime has enrolled or reported, or it is an air-gapped
// runtime with a published bundle.
func hasRuntime(kyma *unstructured.Unstructured) bool {
	if kyma == nil {
		return false
	}
	_, carried := kyma.GetAnnotations()[v1beta2.AnnotationCarried]
	return hasRuntimeField(kyma, "key") || hasRuntimeField(kyma, "observed") ||
		carried && hasRuntimeField(kyma, "published")
}

// hasRuntimeField reports whether a field of a Kyma's status.runtime is set. It returns true for an unreadable status.
func hasRuntimeField(kyma *unstructured.Unstructured, field string) bool {
	if kyma == nil {
		return false
	}
	_, found, err := unstructured.NestedFieldNoCopy(kyma.Object, "status", "runtime", field)
	return found || err != nil
}

// howToAllow returns the instructions for allowing a commit to delete any objects.
func howToAllow(commit string) string {
	return fmt.Sprintf("annotate ConfigMap %s with %s=%s, or set --git-prune-all", RecordName,
		v1beta2.AnnotationAllowPrune, commit)
}

// errNothing returns the refusal of a commit without objects.
func errNothing(commit string) error {
	return fmt.Errorf("the commit has no objects for the control plane: check the path, or if this is intended, %s",
		howToAllow(commit))
}
