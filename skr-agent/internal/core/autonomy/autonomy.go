// Package autonomy lets a runtime select modules itself while the control plane does not respond. Its input is the last
// accepted bundle, the runtime's Kyma and the installed modules. Its output is the bundle with the selected modules.
// The package is pure.
//
// The runtime does not resolve versions. It selects from offers, which are module versions that the control plane
// resolved and signed. A selection never downgrades a module. Only a signed rollback can downgrade a module.
package autonomy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Result is the bundle with the modules that the runtime selected itself.
type Result struct {
	*bundle.Bundle
	// SelectedModules contains the sorted names of the modules that the runtime selected, upgraded or removed itself.
	SelectedModules []string
}

// Apply adds the modules that the runtime's Kyma requests to the last accepted bundle b. If the control plane has not
// processed the request yet, Apply selects modules from the bundle's offers. Otherwise, it only keeps the runtime's
// earlier selections, which are newer versions and removals. Apply returns the bundle unchanged if the bundle does not
// allow autonomy, and during a takeover. If kyma is nil or is being deleted, Apply neither adds nor removes modules.
func Apply(b *bundle.Bundle, kyma *v1beta2.Kyma, installed []v1beta2.Manifest) Result {
	if b == nil || !b.IsAutonomous() {
		return Result{Bundle: b}
	}
	if kyma == nil || !kyma.DeletionTimestamp.IsZero() {
		b, kyma = withoutRequest(b, installed), nil
	}
	versions := MinimumVersions(b, installed)
	asked := ownRequest(b, kyma, installed)
	if kyma == nil || b.Statement.Predicate.IsBuiltFor(kyma.Spec, kyma.Generation) {
		return keepSelections(b, versions, asked, installed)
	}
	own := *b
	followed := Result{Bundle: &own}
	own.State.Manifests, own.State.Problems = nil, slices.Clone(asked.Ignored)
	own.Statement.Predicate.Removals = slices.Clone(b.Statement.Predicate.Removals)
	for _, module := range asked.Modules {
		published := findManifest(b.State.Manifests, func(m bundle.Manifest) bool { return m.Module == module.Name })
		have := installedVersion{manifest: installedManifest(b, module.Name, published, versions),
			version: versions[module.Name]}
		want, problem := chooseManifest(module, cmp.Or(module.Channel, kyma.Spec.Channel), have, b.State.Offers)
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
			followed.SelectedModules = append(followed.SelectedModules, module.Name)
		}
	}
	for _, m := range b.State.Manifests {
		switch {
		case asked.Contains(m.Module):
		case m.IsMandatory():
			own.State.Manifests = append(own.State.Manifests, m)
		default:
			own.Statement.Predicate.Removals = append(own.Statement.Predicate.Removals, m.Module)
			followed.SelectedModules = append(followed.SelectedModules, m.Module)
		}
	}
	followed.removeUnrequested(asked, installed)
	followed.sortManifests()
	return followed
}

// withoutRequest returns the bundle for a runtime whose request is unknown, because its Kyma is missing or unreadable.
// The returned bundle does not add modules. It removes only modules whose removal has already started.
func withoutRequest(b *bundle.Bundle, installed []v1beta2.Manifest) *bundle.Bundle {
	if len(installed) == 0 {
		return b
	}
	has, removed := map[string]bool{}, map[string]bool{}
	for i := range installed {
		has[installed[i].Module()] = true
		removed[installed[i].Module()] = record.HasUnverifiedRemoval(&installed[i])
	}
	own := *b
	own.State.Manifests = slices.DeleteFunc(slices.Clone(b.State.Manifests), func(m bundle.Manifest) bool {
		return !has[m.Module] && !m.IsMandatory()
	})
	own.Statement.Predicate.Removals = slices.DeleteFunc(slices.Clone(b.Statement.Predicate.Removals),
		func(module string) bool { return has[module] && !removed[module] })
	return &own
}

// ownRequest returns the Kyma's request without mandatory modules, which the runtime cannot change. It returns nil if
// kyma is nil.
func ownRequest(b *bundle.Bundle, kyma *v1beta2.Kyma, installed []v1beta2.Manifest) *bundle.OwnRequest {
	if kyma == nil {
		return nil
	}
	// Also exclude a module whose Manifest has the same name as a mandatory module's Manifest.
	mandatory, inBundle := map[string]bool{}, map[string]bool{}
	for _, m := range b.State.Manifests {
		inBundle[m.Module] = true
		if m.IsMandatory() {
			mandatory[m.Module], mandatory[m.Name] = true, true
		}
	}
	for i := range installed {
		// The label can be outdated, for example until the next maintenance window.
		if installed[i].Labels[v1beta2.LabelMandatoryModule] == v1beta2.True && !inBundle[installed[i].Module()] {
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

// keepSelections applies the runtime's earlier selections to a bundle: newer versions of modules, and removals.
func keepSelections(
	b *bundle.Bundle, versions map[string]string, requested *bundle.OwnRequest, installed []v1beta2.Manifest,
) Result {
	own := *b
	followed := Result{Bundle: &own}
	own.State.Manifests, own.State.Problems = slices.Clone(b.State.Manifests), slices.Clone(b.State.Problems)
	own.Statement.Predicate.Removals = slices.Clone(b.Statement.Predicate.Removals)
	for i, m := range b.State.Manifests {
		have := installedManifest(b, m.Module, &b.State.Manifests[i], versions)
		if m.Unmanaged || have.Version == m.Version {
			continue
		}
		own.State.Manifests[i] = *have
		if requested != nil {
			own.State.Manifests[i] = *withPolicy(have, requested.PolicyFor(m.Module))
		}
		own.State.Problems = append(own.State.Problems, bundle.Problem{
			Module: m.Module, Channel: m.Channel, State: v1beta2.StateWarning,
			Message: keptVersionMessage(m.Module, have.Version, "the last accepted bundle has", m.Version),
		})
		followed.SelectedModules = append(followed.SelectedModules, m.Module)
	}
	followed.removeUnrequested(requested, installed)
	if len(followed.SelectedModules) == 0 {
		return Result{Bundle: b}
	}
	followed.sortManifests()
	return followed
}

// removeUnrequested removes the installed modules that the Kyma does not request, if they are in the bundle's offers
// but not among the bundle's modules.
func (f *Result) removeUnrequested(requested *bundle.OwnRequest, installed []v1beta2.Manifest) {
	if requested == nil {
		return
	}
	p := &f.Statement.Predicate
	for i := range installed {
		name := installed[i].Module()
		named := func(m bundle.Manifest) bool { return m.Module == name }
		if requested.Contains(name) || installed[i].Labels[v1beta2.LabelMandatoryModule] == v1beta2.True ||
			slices.Contains(p.Removals, name) ||
			slices.ContainsFunc(f.State.All(), named) ||
			!slices.ContainsFunc(f.State.Offers, named) {
			continue
		}
		p.Removals = append(p.Removals, name)
		f.SelectedModules = append(f.SelectedModules, name)
	}
}

func (f *Result) sortManifests() {
	slices.SortFunc(f.State.Manifests, func(x, y bundle.Manifest) int { return cmp.Compare(x.Name, y.Name) })
	slices.Sort(f.SelectedModules)
}

// MinimumVersions returns each module's minimum version: the bundle's version, or a newer installed version. The
// runtime must not downgrade a module below its minimum version. Modules that are being deleted are omitted.
func MinimumVersions(b *bundle.Bundle, installed []v1beta2.Manifest) map[string]string {
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
		case bundle.IsOlder(published, version) && !b.Statement.Predicate.AllowsRollback(module, version, published) &&
			b.Offer(module, version) != nil:
			versions[module] = version
		}
	}
	return versions
}

// installedManifest returns an installed module's manifest: the published manifest, or the offer for the installed
// version. It returns nil if neither exists.
func installedManifest(
	b *bundle.Bundle, module string, published *bundle.Manifest, versions map[string]string,
) *bundle.Manifest {
	if published != nil && published.Version == versions[module] {
		return published
	}
	if chosen := b.Offer(module, versions[module]); chosen != nil {
		return chosen
	}
	return published
}

// keptVersionMessage returns the message about a module that keeps its version, because the requested version is older.
// source describes the request, such as `channel "fast" has`.
func keptVersionMessage(module, version, source, older string) string {
	return fmt.Sprintf("module %s stays at version %s: %s %s, which is older", module, version, source, older)
}

func findManifest(manifests []bundle.Manifest, matches func(bundle.Manifest) bool) *bundle.Manifest {
	if i := slices.IndexFunc(manifests, matches); i >= 0 {
		return &manifests[i]
	}
	return nil
}

// installedVersion describes the installed version of a module.
type installedVersion struct {
	// manifest is nil if the bundle does not contain the installed version. version is empty if the module is not
	// installed.
	manifest *bundle.Manifest
	version  string
}

// chooseManifest returns the manifest for a requested module, and a message if the request is not fulfilled.
func chooseManifest(
	module v1beta2.Module, channel string, installed installedVersion, offers []bundle.Manifest,
) (*bundle.Manifest, string) {
	if !module.Managed {
		if installed.manifest == nil {
			return nil, ""
		}
		kept := *installed.manifest
		kept.Unmanaged = true
		return &kept, ""
	}
	wish, source := fmt.Sprintf("channel %q", channel), fmt.Sprintf("channel %q has", channel)
	offer := findManifest(offers, func(m bundle.Manifest) bool { return m.Module == module.Name && m.Channel == channel })
	pin := module.Pin()
	if pin != "" {
		wish, source = "version "+pin, "the Kyma pins it to"
		offer = findManifest(offers, func(m bundle.Manifest) bool { return m.Module == module.Name && m.Version == pin })
	}
	switch {
	case offer == nil:
		return withPolicy(installed.manifest, module.CustomResourcePolicy),
			fmt.Sprintf("module %s: the last accepted bundle has no offer for %s; waiting for the control plane",
				module.Name, wish)
	case bundle.IsOlder(offer.Version, installed.version):
		return withPolicy(installed.manifest, module.CustomResourcePolicy),
			keptVersionMessage(module.Name, installed.version, source, offer.Version)
	}
	chosen := *offer
	if pin != "" {
		chosen.Channel = ""
	}
	return withPolicy(&chosen, module.CustomResourcePolicy), ""
}

// withPolicy returns a copy of a manifest with the Kyma's policy for the module's default CR. m can be nil.
func withPolicy(m *bundle.Manifest, policy v1beta2.CustomResourcePolicy) *bundle.Manifest {
	if m == nil || cmp.Or(policy, v1beta2.PolicyCreateAndDelete) == v1beta2.PolicyCreateAndDelete {
		return m
	}
	changed := *m
	changed.Spec.CustomResourcePolicy, changed.Spec.Resource = policy, nil
	return &changed
}
