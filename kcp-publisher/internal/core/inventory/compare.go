package inventory

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Change is an image that was added to or removed from the bundles of some runtimes.
type Change struct {
	Reference string `json:"image"`
	Module
	// Added lists the IDs of the runtimes whose bundle contains the image now but did not contain it before. Removed
	// lists the IDs of the runtimes whose bundle contained the image before but does not contain it now. Both are
	// sorted.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// Difference is the difference between the inventories at the times Since and Until.
type Difference struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Changes are sorted by reference, module and version.
	Changes []Change `json:"changes"`
	// Unknown lists the module versions whose images could not be determined, sorted.
	Unknown []Unknown `json:"unknown,omitempty"`
	// Unread lists the runtimes whose bundles could not be read, sorted.
	Unread []Unread `json:"unread,omitempty"`
	// WithoutKyma lists the runtimes in the registry that are not compared because they have no Kyma, sorted. A Kyma
	// may have been deleted, or another control plane manages the runtime. If these runtimes could not be determined,
	// WithoutKymaProblem is the reason.
	WithoutKyma        []string `json:"withoutKyma,omitempty"`
	WithoutKymaProblem string   `json:"withoutKymaProblem,omitempty"`
}

// Unread is a runtime whose bundles could not be read.
type Unread struct {
	Runtime string `json:"runtime"`
	Problem string `json:"problem"`
}

type imageUse struct {
	reference string
	module    Module
}

// Compare returns the changes between two inventories.
func Compare(before, after Fleet) []Change {
	was, is := before.runtimesByUse(), after.runtimesByUse()
	all := maps.Clone(was)
	maps.Copy(all, is)
	changes := []Change{}
	for u := range all {
		c := Change{u.reference, u.module, difference(is[u], was[u]), difference(was[u], is[u])}
		if len(c.Added)+len(c.Removed) > 0 {
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Reference, b.Reference), a.compare(b.Module))
	})
	return changes
}

func (f Fleet) runtimesByUse() map[imageUse]map[string]bool {
	all := map[imageUse]map[string]bool{}
	for _, i := range f.Images {
		for _, u := range i.Uses {
			ids := map[string]bool{}
			for _, h := range u.Runtimes {
				ids[h.Runtime] = true
			}
			all[imageUse{i.Reference, u.Module}] = ids
		}
	}
	return all
}

// difference returns the IDs that are in included but not in excluded, sorted.
func difference(included, excluded map[string]bool) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(included)) {
		if !excluded[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// MergeUnknown returns the module versions that have unknown images in at least one of the inventories. The result is
// sorted and has no duplicates.
func MergeUnknown(fleets ...Fleet) []Unknown {
	var all []Unknown
	for _, f := range fleets {
		all = append(all, f.Unknown...)
	}
	slices.SortStableFunc(all, func(a, b Unknown) int { return a.compare(b.Module) })
	return slices.CompactFunc(all, func(a, b Unknown) bool { return a.Module == b.Module })
}
