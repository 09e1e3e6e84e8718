package follow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Pruning limits the deletions that a commit can make without an operator's approval.
type Pruning struct {
	// All allows a commit to delete any number of objects.
	All bool
	// MaxPercent and MaxCount limit the deleted objects. A commit that exceeds both waits for approval. Other rules
	// apply to mandatory modules, and to Kymas with a runtime.
	MaxPercent, MaxCount int
	// Allowed is the commit whose deletions an operator approved.
	Allowed string
}

func (p Pruning) isApproved(commit string) bool { return p.All || commit != "" && p.Allowed == commit }

// PruneError means that a commit cannot be applied until an operator approves its deletions.
type PruneError struct {
	Commit string
	// Live, Mandatory and Rest are the objects to delete: Kymas with a runtime, objects that make a module mandatory,
	// and all others. Total is the number of existing objects to which the limits apply.
	Live, Mandatory, Rest []Key
	Total                 int
	Limits                Pruning
}

func (e *PruneError) Error() string {
	var parts []string
	if len(e.Live) > 0 {
		parts = append(parts,
			fmt.Sprintf("%d Kymas with a live runtime, which would be emptied: %s", len(e.Live), joinKeys(e.Live)))
	}
	if len(e.Mandatory) > 0 {
		parts = append(parts,
			fmt.Sprintf("%d objects of mandatory modules, which would be removed from every runtime: %s",
				len(e.Mandatory), joinKeys(e.Mandatory)))
	}
	if len(e.Rest) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d other objects (at most %d or %d%% without permission): %s",
			len(e.Rest), e.Total, e.Limits.MaxCount, e.Limits.MaxPercent, joinKeys(e.Rest)))
	}
	return "would prune " + strings.Join(parts, "; ")
}

const maxNamed = 10

func joinKeys(keys []Key) string {
	var names []string
	for _, key := range keys[:min(len(keys), maxNamed)] {
		names = append(names, key.String())
	}
	if more := len(keys) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// removalLoss counts and lists the objects that a commit deletes.
type removalLoss struct {
	// objects counts the objects from earlier commits. kept counts the objects that the new commit also contains, and
	// pruned counts the objects that it deletes.
	objects, kept, pruned counts
	// live contains the Kymas to delete that have a runtime. mandatory contains the objects to delete that make a
	// module mandatory. rest contains the other deleted objects. limited counts all existing objects to which the
	// limits apply.
	live, mandatory, rest []Key
	limited               int
}

type counts struct{ all, kymas int }

func (c *counts) add(key Key) {
	c.all++
	if key.Kind.Kind == kindKyma {
		c.kymas++
	}
}

// planPrune adds the objects to delete to the plan, and returns their counts. kept contains the keys of the commit's
// objects.
func (p *Plan) planPrune(live map[Key]*unstructured.Unstructured, before Inventory, kept map[Key]bool) removalLoss {
	var lost removalLoss
	isAdded := map[Key]bool{}
	for _, key := range before.Added {
		isAdded[key] = true
	}
	for _, key := range before.Keys {
		lost.objects.add(key)
		if kept[key] {
			lost.kept.add(key)
		}
		asks := requiredPermission(key, live[key], isAdded[key])
		if asks == asksBeyondLimits {
			lost.limited++
		}
		switch object := live[key]; {
		case kept[key], object == nil, object.GetDeletionTimestamp() != nil,
			object.GetAnnotations()[v1beta2.AnnotationGitCommit] == "":
			// Do not prune an object that is in the commit, is already deleted, or does not belong to the repository.
		case object.GetAnnotations()[v1beta2.AnnotationPrune] == v1beta2.PruneDisabled:
			p.Protected = append(p.Protected, key)
			p.Inventory = append(p.Inventory, key) // a later commit can prune the object after the annotation is removed
		default:
			p.Prune = append(p.Prune, key)
			lost.pruned.add(key)
			lost.add(key, asks)
		}
	}
	return lost
}

// permission returns the reason why the commit must wait for an operator's approval, or nil. It returns an error if the
// commit deletes all objects or all Kymas, which is most likely a mistake.
func (l *removalLoss) permission(commit string, limits Pruning) (*PruneError, error) {
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

// planDisown adds the objects to disown to the plan: objects with a commit's annotation that are neither in this commit
// nor in the inventory.
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

type permission int

const (
	asksNothing permission = iota
	asksBeyondLimits
	asksForRuntime
	asksForMandatory
)

// requiredPermission returns the approval that deleting an object requires. added is true if the object was created
// by a commit that was never completely applied. The deletion of such an object does not need approval, unless the
// object is a Kyma with a published bundle.
func requiredPermission(key Key, object *unstructured.Unstructured, added bool) permission {
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

func (l *removalLoss) add(key Key, asks permission) {
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

// isMandatory reports whether deleting the object removes a module from every runtime.
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

// hasRuntime reports whether the Kyma's runtime has enrolled, reported or received a bundle.
func hasRuntime(kyma *unstructured.Unstructured) bool {
	if kyma == nil {
		return false
	}
	_, carried := kyma.GetAnnotations()[v1beta2.AnnotationCarried]
	return hasRuntimeField(kyma, "key") || hasRuntimeField(kyma, "observed") ||
		carried && hasRuntimeField(kyma, "published")
}

// hasRuntimeField reports whether a Kyma's status.runtime has a field. It returns true if the status cannot be read.
func hasRuntimeField(kyma *unstructured.Unstructured, field string) bool {
	if kyma == nil {
		return false
	}
	_, found, err := unstructured.NestedFieldNoCopy(kyma.Object, "status", "runtime", field)
	return found || err != nil
}

func howToAllow(commit string) string {
	return fmt.Sprintf("annotate ConfigMap %s with %s=%s, or set --git-prune-all", RecordName,
		v1beta2.AnnotationAllowPrune, commit)
}

func errNothing(commit string) error {
	return fmt.Errorf("the commit has no objects for the control plane: check the path, or if this is intended, %s",
		howToAllow(commit))
}
