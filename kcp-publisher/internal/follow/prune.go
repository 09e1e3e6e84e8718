package follow

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Pruning says what a commit may delete without being asked about.
type Pruning struct {
	// All lets a commit delete all objects, or all Kymas, that earlier ones brought, and more than the limits below.
	All bool
	// MaxPercent and MaxCount are limits on objects other than Kymas with a live runtime: a commit is held that exceeds both. A Kyma with
	// a live runtime is never deleted without permission.
	MaxPercent, MaxCount int
	// Allowed is the commit that a person allowed to delete whatever it deletes.
	Allowed string
}

// allows reports whether a commit may delete whatever it deletes.
func (p Pruning) allows(commit string) bool { return p.All || commit != "" && p.Allowed == commit }

// PruneError is a commit that waits for the permission to prune.
type PruneError struct {
	Commit string
	// Live are Kymas whose runtimes would be emptied, Rest other objects, of as many as Total.
	Live, Rest []Key
	Total      int
	Limits     Pruning
}

func (e *PruneError) Error() string {
	var parts []string
	if len(e.Live) > 0 {
		parts = append(parts, fmt.Sprintf("%d Kymas with a live runtime, which would be emptied: %s", len(e.Live), named(e.Live)))
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

// planPrune adds to a plan what goes and what stays of earlier commits. Kept are those of the inventory that the commit has.
func (p *Plan) planPrune(
	commit string, live map[Key]*unstructured.Unstructured, before Inventory, kept map[Key]bool, pruning Pruning,
) error {
	held := &PruneError{Commit: commit, Limits: pruning}
	kymas, keptKymas, prunedKymas, keptAll := 0, 0, 0, 0
	isAdded := map[Key]bool{}
	for _, key := range before.Added {
		isAdded[key] = true
	}
	for _, key := range before.Keys {
		isKyma := key.Kind.Kind == kindKyma
		if isKyma {
			kymas++
		}
		if kept[key] {
			keptAll++
			if isKyma {
				keptKymas++
			}
		}
		isLive, added := isKyma && hasRuntime(live[key]), isAdded[key]
		if !isLive && !added {
			held.Total++
		}
		switch object := live[key]; {
		case kept[key], object == nil, object.GetDeletionTimestamp() != nil, object.GetAnnotations()[v1beta2.AnnotationGitCommit] == "":
			// It stays, or is gone, or somebody took the commit's annotation from it: it is not the repository's any more.
		case object.GetAnnotations()[v1beta2.AnnotationPrune] == v1beta2.PruneDisabled:
			p.Protected = append(p.Protected, key)
			p.Inventory = append(p.Inventory, key) // to be pruned once the annotation is gone
		default:
			p.Prune = append(p.Prune, key)
			if isKyma {
				prunedKymas++
			}
			switch {
			case isLive:
				held.Live = append(held.Live, key)
			case !added:
				held.Rest = append(held.Rest, key)
			}
		}
	}
	if pruning.allows(commit) {
		return nil
	}
	switch {
	case len(p.Prune) > 0 && keptAll == 0:
		return fmt.Errorf("none of the %d objects of earlier commits is left: if that is meant, say --git-prune-all", len(before.Keys))
	case prunedKymas > 0 && keptKymas == 0:
		return fmt.Errorf("none of the %d Kymas of earlier commits is left, which would empty their runtimes: if that is meant, say --git-prune-all", kymas)
	}
	if len(held.Rest) <= pruning.MaxCount || len(held.Rest)*100 <= held.Total*pruning.MaxPercent {
		held.Rest = nil
	}
	if len(held.Live)+len(held.Rest) > 0 {
		p.Held = held
	}
	return nil
}

// hasRuntime reports whether a Kyma's runtime is known to be there: it enrolled or reported, or its bundles are carried by hand and one was
// published. A status that cannot be read counts as one.
func hasRuntime(kyma *unstructured.Unstructured) bool {
	if kyma == nil {
		return false
	}
	evidence := []string{"key", "observed"}
	if _, carried := kyma.GetAnnotations()[v1beta2.AnnotationCarried]; carried {
		evidence = append(evidence, "published")
	}
	for _, field := range evidence {
		if _, found, err := unstructured.NestedFieldNoCopy(kyma.Object, "status", "runtime", field); found || err != nil {
			return true
		}
	}
	return false
}

// errNothing is the refusal of a commit without objects.
var errNothing = errors.New("there are no objects for the control plane in it: is the path right? If that is meant, say --git-prune-all")
