// Package autonomy decides what a runtime does by itself until the control plane answers: the bundle in force and the runtime's own
// Kyma go in, what is followed comes out. It is pure.
//
// The runtime resolves nothing: it chooses among offers that the control plane resolved and signed, so that whatever the control plane
// answers later for the same wish is the same, and nothing is installed again.
package autonomy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Followed is the bundle as the runtime follows it.
type Followed struct {
	*bundle.Bundle
	// Decided are the modules that the runtime chose, changed or removed by itself, sorted.
	Decided []string
}

// Follow returns what is followed: the bundle as it is, or, where its settings allow it and it answers another wish than the
// runtime's Kyma has now, with what the Kyma asks for.
func Follow(b *bundle.Bundle, kyma *v1beta2.Kyma) Followed {
	if b == nil || b.State.Settings.Autonomy != bundle.AutonomyCatalog || b.Statement.Predicate.Deleting ||
		kyma == nil || !kyma.DeletionTimestamp.IsZero() || kyma.Generation == b.Statement.Predicate.KymaGeneration {
		return Followed{Bundle: b}
	}
	own := *b
	followed := Followed{Bundle: &own}
	own.State.Manifests, own.State.Problems = nil, nil
	own.Statement.Predicate.Removals = slices.Clone(b.Statement.Predicate.Removals)
	asked := map[string]bool{}
	for _, module := range kyma.Spec.Modules {
		asked[module.Name] = true
		have := find(b.State.Manifests, func(m bundle.Manifest) bool { return m.Module == module.Name })
		want, problem := choose(module, cmp.Or(module.Channel, kyma.Spec.Channel), have, b.State.Offers)
		if want != nil {
			own.State.Manifests = append(own.State.Manifests, *want)
			own.Statement.Predicate.Removals = slices.DeleteFunc(own.Statement.Predicate.Removals, func(name string) bool { return name == module.Name })
		}
		if problem != "" {
			own.State.Problems = append(own.State.Problems, bundle.Problem{
				Module: module.Name, Channel: cmp.Or(module.Channel, kyma.Spec.Channel), State: v1beta2.StateWarning, Message: problem,
			})
		}
		if want != nil && (have == nil || have.Version != want.Version || have.Channel != want.Channel || have.Unmanaged != want.Unmanaged) {
			followed.Decided = append(followed.Decided, module.Name)
		}
	}
	for _, m := range b.State.Manifests {
		switch {
		case asked[m.Module]:
		case m.Labels[v1beta2.LabelMandatoryModule] == v1beta2.True:
			own.State.Manifests = append(own.State.Manifests, m)
		default:
			own.Statement.Predicate.Removals = append(own.Statement.Predicate.Removals, m.Module)
			followed.Decided = append(followed.Decided, m.Module)
		}
	}
	slices.SortFunc(own.State.Manifests, func(x, y bundle.Manifest) int { return cmp.Compare(x.Name, y.Name) })
	slices.Sort(followed.Decided)
	return followed
}

func find(manifests []bundle.Manifest, is func(bundle.Manifest) bool) *bundle.Manifest {
	if i := slices.IndexFunc(manifests, is); i >= 0 {
		return &manifests[i]
	}
	return nil
}

// choose returns the manifest of one module that is asked for, and what there is to say about it.
func choose(module v1beta2.Module, channel string, have *bundle.Manifest, offers []bundle.Manifest) (*bundle.Manifest, string) {
	if !module.Managed {
		if have == nil {
			return nil, ""
		}
		kept := *have
		kept.Unmanaged = true
		return &kept, ""
	}
	wish := fmt.Sprintf("at channel %q", channel)
	offer := find(offers, func(m bundle.Manifest) bool { return m.Module == module.Name && m.Channel == channel })
	if module.Version != "" {
		wish = "in version " + module.Version
		offer = find(offers, func(m bundle.Manifest) bool { return m.Module == module.Name && m.Version == module.Version })
	}
	switch {
	case offer == nil:
		return have, fmt.Sprintf("module %s: the last bundle offers none %s: waiting for the control plane", module.Name, wish)
	case have != nil && bundle.Older(offer.Version, have.Version):
		return have, fmt.Sprintf("module %s: stays at version %s: %s there is %s, which is older", module.Name, have.Version, wish, offer.Version)
	}
	chosen := *offer
	if module.Version != "" {
		chosen.Channel = ""
	}
	if cmp.Or(module.CustomResourcePolicy, v1beta2.PolicyCreateAndDelete) != v1beta2.PolicyCreateAndDelete {
		chosen.Spec.CustomResourcePolicy, chosen.Spec.Resource = module.CustomResourcePolicy, nil
	}
	return &chosen, ""
}
