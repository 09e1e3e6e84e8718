// Package autonomy lets a runtime select modules itself while the control plane does not respond. Its input is the
// last accepted bundle, the runtime's Kyma and the installed modules. Its output is the bundle with the selected
// modules. The package is pure.
//
// The runtime does not resolve versions. It selects from offers, which are module versions that the control plane
// resolved and signed. A selection never downgrades a module. Only a signed rollback does.
package autonomy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Followed is the result of Follow: the bundle with the modules that the runtime selected itself.
type Followed struct {
	*bundle.Bundle
	// Decided contains the sorted names of the modules that the runtime selected, upgraded or removed itself.
	Decided []string
}

// Follow applies the request of the runtime's Kyma to the last accepted bundle b. If the control plane has not
// processed the request yet, Follow selects modules from the bundle's offers. Otherwise, it keeps only newer versions
// and removals that the runtime selected earlier.
//
// Follow returns the bundle unchanged if the bundle does not allow autonomy, and during a takeover. If kyma is nil or
// is being deleted, Follow neither adds nor removes modules.
func Follow(b *bundle.Bundle, kyma *v1beta2.Kyma, installed []v1beta2.Manifest) Followed {
	if b == nil || !b.Autonomous() {
		return Followed{Bundle: b}
	}
	if kyma == nil || !kyma.DeletionTimestamp.IsZero() {
		b, kyma = unasked(b, installed), nil
	}
	versions := Versions(b, installed)
	asked := request(b, kyma, installed)
	if kyma == nil || b.Statement.Predicate.Answers(kyma.Spec, kyma.Generation) {
		return keep(b, versions, asked, installed)
	}
	own := *b
	followed := Followed{Bundle: &own}
	own.State.Manifests, own.State.Problems = nil, slices.Clone(asked.Ignored)
	own.Statement.Predicate.Removals = slices.Clone(b.Statement.Predicate.Removals)
	for _, module := range asked.Modules {
		published := find(b.State.Manifests, func(m bundle.Manifest) bool { return m.Module == module.Name })
		have := has{manifest: current(b, module.Name, published, versions), version: versions[module.Name]}
		want, problem := choose(module, cmp.Or(module.Channel, kyma.Spec.Channel), have, b.State.Offers)
		if want != nil {
			own.State.Manifests = append(own.State.Manifests, *want)
			own.Statement.Predicate.Removals = slices.DeleteFunc(own.Statement.Predicate.Removals,
				func(name string) bool { return name == module.Name })
		}
		if problem != "" {
			own.State.Problems = append(own.State.Problems, bundle.Problem{
				Module: module.Name, Channel: cmp.Or(module.Channel, kyma.Spec.Channel), State: v1beta2.StateWarning,
				Message: problem,
			})
		}
		if want != nil &&
			(published == nil || published.Version != want.Version || published.Channel != want.Channel ||
				published.Unmanaged != want.Unmanaged) {
			followed.Decided = append(followed.Decided, module.Name)
		}
	}
	for _, m := range b.State.Manifests {
		switch {
		case asked.Contains(m.Module):
		case m.IsMandatory():
			own.State.Manifests = append(own.State.Manifests, m)
		default:
			own.Statement.Predicate.Removals = append(own.Statement.Predicate.Removals, m.Module)
			followed.Decided = append(followed.Decided, m.Module)
		}
	}
	followed.withdraw(asked, installed)
	followed.sort()
	return followed
}

// unasked returns the bundle for a runtime whose request is unknown, because its Kyma is missing or unreadable. The
// returned bundle adds no modules. It removes only modules whose removal has already started.
func unasked(b *bundle.Bundle, installed []v1beta2.Manifest) *bundle.Bundle {
	if len(installed) == 0 {
		return b
	}
	has, removed := map[string]bool{}, map[string]bool{}
	for i := range installed {
		has[installed[i].Module()] = true
		removed[installed[i].Module()] = record.ClaimsRemoval(&installed[i])
	}
	own := *b
	own.State.Manifests = slices.DeleteFunc(slices.Clone(b.State.Manifests), func(m bundle.Manifest) bool {
		return !has[m.Module] && !m.IsMandatory()
	})
	own.Statement.Predicate.Removals = slices.DeleteFunc(slices.Clone(b.Statement.Predicate.Removals),
		func(module string) bool { return has[module] && !removed[module] })
	return &own
}

// request returns the Kyma's request without mandatory modules, which the runtime cannot change. It returns nil if kyma
// is nil.
func request(b *bundle.Bundle, kyma *v1beta2.Kyma, installed []v1beta2.Manifest) *bundle.OwnRequest {
	if kyma == nil {
		return nil
	}
	// The map contains both the names of modules and the names of their Manifests, because another module can have the
	// same Manifest name.
	mandatory := map[string]bool{}
	for _, m := range b.State.Manifests {
		if m.IsMandatory() {
			mandatory[m.Module], mandatory[m.Name] = true, true
		}
	}
	for i := range installed {
		if installed[i].Labels[v1beta2.LabelMandatoryModule] == v1beta2.True {
			mandatory[installed[i].Module()], mandatory[installed[i].Name] = true, true
		}
	}
	limited := bundle.LimitRequest(kyma.Spec.Modules, func(module string) bool {
		return mandatory[module] ||
			slices.ContainsFunc(b.State.Offers, func(m bundle.Manifest) bool {
				return m.Module == module && mandatory[m.Name]
			})
	})
	return &limited
}

// keep applies earlier selections of the runtime to a bundle: newer versions of modules, and removals.
func keep(
	b *bundle.Bundle, versions map[string]string, asked *bundle.OwnRequest, installed []v1beta2.Manifest,
) Followed {
	own := *b
	followed := Followed{Bundle: &own}
	own.State.Manifests, own.State.Problems = slices.Clone(b.State.Manifests), slices.Clone(b.State.Problems)
	own.Statement.Predicate.Removals = slices.Clone(b.Statement.Predicate.Removals)
	for i, m := range b.State.Manifests {
		have := current(b, m.Module, &b.State.Manifests[i], versions)
		if m.Unmanaged || have.Version == m.Version {
			continue
		}
		own.State.Manifests[i] = *have
		if asked != nil {
			own.State.Manifests[i] = *withPolicy(have, asked.PolicyFor(m.Module))
		}
		own.State.Problems = append(own.State.Problems, bundle.Problem{
			Module: m.Module, Channel: m.Channel, State: v1beta2.StateWarning,
			Message: stays(m.Module, have.Version, "the last accepted bundle has", m.Version),
		})
		followed.Decided = append(followed.Decided, m.Module)
	}
	followed.withdraw(asked, installed)
	if len(followed.Decided) == 0 {
		return Followed{Bundle: b}
	}
	followed.sort()
	return followed
}

// withdraw removes installed modules that the Kyma does not request and that only the bundle's offers contain.
func (f *Followed) withdraw(asked *bundle.OwnRequest, installed []v1beta2.Manifest) {
	if asked == nil {
		return
	}
	p := &f.Statement.Predicate
	for i := range installed {
		name := installed[i].Module()
		named := func(m bundle.Manifest) bool { return m.Module == name }
		if asked.Contains(name) || installed[i].Labels[v1beta2.LabelMandatoryModule] == v1beta2.True ||
			slices.Contains(p.Removals, name) ||
			slices.ContainsFunc(f.State.All(), named) ||
			!slices.ContainsFunc(f.State.Offers, named) {
			continue
		}
		p.Removals = append(p.Removals, name)
		f.Decided = append(f.Decided, name)
	}
}

func (f *Followed) sort() {
	slices.SortFunc(f.State.Manifests, func(x, y bundle.Manifest) int { return cmp.Compare(x.Name, y.Name) })
	slices.Sort(f.Decided)
}

// Versions returns the version below which each module must not be downgraded: the bundle's version, or a newer
// installed version. Modules that are being deleted are omitted.
func Versions(b *bundle.Bundle, installed []v1beta2.Manifest) map[string]string {
	versions := map[string]string{}
	if b != nil {
		for _, m := range b.State.Manifests {
			versions[m.Module] = m.Version
		}
	}
	for i := range installed {
		m := &installed[i]
		module, version := m.Module(), m.Spec.Version
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		published, known := versions[module]
		switch {
		case !known:
			versions[module] = version
		case bundle.Older(published, version) && !b.Statement.Predicate.AllowsRollback(module, version, published) &&
			b.Offer(module, version) != nil:
			versions[module] = version
		}
	}
	return versions
}

// current returns the manifest of an installed module: the published manifest, or the offer of the installed version.
// It returns nil if neither exists.
func current(b *bundle.Bundle, module string, published *bundle.Manifest, versions map[string]string) *bundle.Manifest {
	if published != nil && published.Version == versions[module] {
		return published
	}
	if chosen := b.Offer(module, versions[module]); chosen != nil {
		return chosen
	}
	return published
}

// stays returns the message for a module that keeps its version because the requested version is older. source
// describes the request, such as `channel "fast" has`.
func stays(module, version, source, older string) string {
	return fmt.Sprintf("module %s stays at version %s: %s %s, which is older", module, version, source, older)
}

func find(manifests []bundle.Manifest, is func(bundle.Manifest) bool) *bundle.Manifest {
	if i := slices.IndexFunc(manifests, is); i >= 0 {
		return &manifests[i]
	}
	return nil
}

// has describes the installed version of a module.
type has struct {
	// manifest is nil if the bundle does not contain the installed version. version is empty if the module is not
	// installed.
	manifest *bundle.Manifest
	version  string
}

// choose returns the manifest for a requested module, and a message if the request is not fulfilled.
func choose(module v1beta2.Module, channel string, have has, offers []bundle.Manifest) (*bundle.Manifest, string) {
	if !module.Managed {
		if have.manifest == nil {
			return nil, ""
		}
		kept := *have.manifest
		kept.Unmanaged = true
		return &kept, ""
	}
	wish, source := fmt.Sprintf("channel %q", channel), fmt.Sprintf("channel %q has", channel)
	offer := find(offers, func(m bundle.Manifest) bool { return m.Module == module.Name && m.Channel == channel })
	pin := module.Pin()
	if pin != "" {
		wish, source = "version "+pin, "the Kyma pins it to"
		offer = find(offers, func(m bundle.Manifest) bool { return m.Module == module.Name && m.Version == pin })
	}
	switch {
	case offer == nil:
		return withPolicy(have.manifest, module.CustomResourcePolicy),
			fmt.Sprintf("module %s: the last accepted bundle has no offer for %s; waiting for the control plane",
				module.Name, wish)
	case bundle.Older(offer.Version, have.version):
		return withPolicy(have.manifest, module.CustomResourcePolicy),
			stays(module.Name, have.version, source, offer.Version)
	}
	chosen := *offer
	if pin != "" {
		chosen.Channel = ""
	}
	return withPolicy(&chosen, module.CustomResourcePolicy), ""
}

// withPolicy returns a copy of a manifest with the Kyma's policy for the default CR of the module. m can be nil.
func withPolicy(m *bundle.Manifest, policy v1beta2.CustomResourcePolicy) *bundle.Manifest {
	if m == nil || cmp.Or(policy, v1beta2.PolicyCreateAndDelete) == v1beta2.PolicyCreateAndDelete {
		return m
	}
	changed := *m
	changed.Spec.CustomResourcePolicy, changed.Spec.Resource = policy, nil
	return &changed
}
