package follow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Pruning says what a commit may delete without being asked about.
type Pruning struct {
	// All lets a commit delete all objects, or all Kymas, that earlier ones brought, and more than the limits below.
	All bool
	// MaxPercent and MaxCount are limits on objects other than Kymas with a live runtime and what makes a module
	// mandatory: a commit is held that exceeds both. Those are never deleted without permission.
	MaxPercent, MaxCount int
	// Allowed is the commit that a person allowed to delete whatever it deletes.
	Allowed string
}

// allows reports whether a commit may delete whatever it deletes.
func (p Pruning) allows(commit string) bool { return p.All || commit != "" && p.Allowed == commit }

// PruneError is a commit that waits for the permission to prune.
type PruneError struct {
	Commit string
	// Live are Kymas whose runtimes would be emptied, Mandatory is what would take a module from every runtime. Rest are
	// other objects, of as many as Total.
	Live, Mandatory, Rest []Key
	Total                 int
	Limits                Pruning
}

func (e *PruneError) Error() string {
	var parts []string
	if len(e.Live) > 0 {
		parts = append(parts, fmt.Sprintf("%d Kymas with a live runtime, which would be emptied: %s", len(e.Live), named(e.Live)))
	}
	if len(e.Mandatory) > 0 {
		parts = append(parts, fmt.Sprintf("%d objects of mandatory modules, which every runtime would lose: %s", len(e.Mandatory), named(e.Mandatory)))
	}
	if len(e.Rest) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d other objects (at most %d or %d%% go without permission): %s",
			len(e.Rest), e.Total, e.Limits.MaxCount, e.Limits.MaxPercent, named(e.Rest)))
	}
	return "would prune " + strings.Join(parts, "; ")
}

// maxTold is how many objects one message names.
const maxTold = 10

func named(keys []Key) string {
	var names []string
	for _, key := range keys[:min(len(keys), maxTold)] {
		names = append(names, key.String())
	}
	if more := len(keys) - maxTold; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// loss is what the runtimes lose by a commit.
type loss struct {
	// objects are how many earlier commits brought, kept how many of them the commit has, and pruned how many it deletes.
	objects, kept, pruned counts
	// live, mandatory and rest are the objects that are deleted, by what that takes; limited are how many objects the
	// limits are about.
	live, mandatory, rest []Key
	limited               int
}

// counts are numbers of objects, and of the Kymas among them.
type counts struct{ all, kymas int }

func (c *counts) add(key Key) {
	c.all++
	if key.Kind.Kind == kindKyma {
		c.kymas++
	}
}

// planPrune adds to a plan what goes and what stays of earlier commits. Kept are those of the inventory that the commit
// has.
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
		case kept[key], object == nil, object.GetDeletionTimestamp() != nil, object.GetAnnotations()[v1beta2.AnnotationGitCommit] == "":
			// It stays, or is gone, or somebody took the commit's annotation from it: it is not the repository's any more.
		case object.GetAnnotations()[v1beta2.AnnotationPrune] == v1beta2.PruneDisabled:
			p.Protected = append(p.Protected, key)
			p.Inventory = append(p.Inventory, key) // to be pruned once the annotation is gone
		default:
			p.Prune = append(p.Prune, key)
			lost.pruned.add(key)
			lost.add(key, asks)
		}
	}
	return lost
}

// permission returns why a commit that nobody allowed to delete has to wait for a person, nil when it has not. The
// error says that it looks like a mistake.
func (l *loss) permission(commit string, limits Pruning) (*PruneError, error) {
	switch {
	case l.pruned.all > 0 && l.kept.all == 0:
		return nil, fmt.Errorf("none of the %d objects of earlier commits is left: if that is meant, %s", l.objects.all, howToAllow(commit))
	case l.pruned.kymas > 0 && l.kept.kymas == 0:
		return nil, fmt.Errorf("none of the %d Kymas of earlier commits is left, which would empty their runtimes: if that is meant, %s", l.objects.kymas, howToAllow(commit))
	}
	held := &PruneError{Commit: commit, Live: l.live, Mandatory: l.mandatory, Rest: l.rest, Total: l.limited, Limits: limits}
	if len(held.Rest) <= limits.MaxCount || len(held.Rest)*100 <= held.Total*limits.MaxPercent {
		held.Rest = nil
	}
	if len(held.Live)+len(held.Mandatory)+len(held.Rest) == 0 {
		return nil, nil
	}
	return held, nil
}

// planDisown adds to a plan what a commit took over that was never applied as a whole, and that this one lacks: it was
// there before, and no inventory has it.
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

// permission is what deleting an object takes.
type permission int

const (
	asksNothing permission = iota
	asksBeyondLimits
	asksForRuntime
	asksForMandatory
)

// asksFor returns what deleting an object takes. What only a commit brought that was never applied as a whole takes
// nothing, unless a bundle was published to it: an agent that enrolled meanwhile has nothing to lose.
func asksFor(key Key, object *unstructured.Unstructured, added bool) permission {
	isKyma := key.Kind.Kind == kindKyma
	switch {
	case added && (!isKyma || !hasOf(object, "published")):
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

// isMandatory reports whether an object makes a module mandatory: without it, every runtime loses the module.
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

// hasRuntime reports whether a Kyma's runtime is known to be there: it enrolled or reported, or its bundles are carried
// by hand and one was published.
func hasRuntime(kyma *unstructured.Unstructured) bool {
	if kyma == nil {
		return false
	}
	_, carried := kyma.GetAnnotations()[v1beta2.AnnotationCarried]
	return hasOf(kyma, "key") || hasOf(kyma, "observed") || carried && hasOf(kyma, "published")
}

// hasOf reports whether a Kyma's status has something of its runtime. A status that cannot be read counts as if it had.
func hasOf(kyma *unstructured.Unstructured, field string) bool {
	if kyma == nil {
		return false
	}
	_, found, err := unstructured.NestedFieldNoCopy(kyma.Object, "status", "runtime", field)
	return found || err != nil
}

// howToAllow says how a person allows a commit to delete whatever it deletes.
func howToAllow(commit string) string {
	return fmt.Sprintf("annotate ConfigMap %s with %s=%s, or say --git-prune-all", RecordName, v1beta2.AnnotationAllowPrune, commit)
}

// errNothing is the refusal of a commit without objects.
func errNothing(commit string) error {
	return fmt.Errorf("there are no objects for the control plane in it: is the path right? If that is meant, %s", howToAllow(commit))
}
