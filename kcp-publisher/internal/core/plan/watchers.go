package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// CheckWatchers returns the valid Watchers, sorted by name, and an error for each refused Watcher. If more than
// bundle.MaxWatchers are valid, it accepts the oldest ones.
func CheckWatchers(all []v1beta2.Watcher) (accepted []bundle.Watcher, refused map[string]error) {
	byAge := slices.SortedFunc(slices.Values(all), func(a, b v1beta2.Watcher) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	accepted, refused = []bundle.Watcher{}, map[string]error{}
	for _, one := range byAge {
		if !one.DeletionTimestamp.IsZero() {
			continue
		}
		r := one.Spec.ResourceToWatch
		if r.Version == "*" && r.Group == v1beta2.Group {
			// Use the version of the CRDs that the agent installs for this group.
			r.Version = v1beta2.GroupVersion.Version
		}
		next := bundle.Watcher{
			Name: one.Name, Group: r.Group, Version: r.Version, Resource: r.Resource, Labels: one.Spec.LabelsToWatch,
			Field: one.Spec.Field,
		}
		if err := next.Check(); err != nil {
			refused[one.Name] = fmt.Errorf("watcher %s: %w", one.Name, err)
		} else if len(accepted) == bundle.MaxWatchers {
			refused[one.Name] = fmt.Errorf(
				"watcher %s: the limit of %d Watchers is reached: delete an older Watcher", one.Name,
				bundle.MaxWatchers)
		} else {
			accepted = append(accepted, next)
		}
	}
	slices.SortFunc(accepted, func(a, b bundle.Watcher) int { return cmp.Compare(a.Name, b.Name) })
	return accepted, refused
}
