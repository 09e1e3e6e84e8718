package resolve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// sizeBudget tracks the number and total size of the manifests in a desired state. An agent refuses a bundle that is
// too large.
type sizeBudget struct {
	contentBytes  int64
	documentBytes int
	modules       map[string]string // maps Manifest names to module names
}

// reserve adds a manifest to the budget. It returns an error if the manifest would exceed a limit or if another module
// uses the same Manifest name.
func (b *sizeBudget) reserve(m bundle.Manifest) error {
	if err := m.Check(); err != nil {
		return err
	}
	encoded := encodedSize(m)
	switch other, taken := b.modules[m.Name]; {
	case taken:
		return fmt.Errorf("its Manifest name %s is already used by module %s: rename one of the modules",
			m.Name, other)
	case len(b.modules) == bundle.MaxManifests:
		return fmt.Errorf("the runtime already has %d modules, which is the limit: remove some", bundle.MaxManifests)
	case b.contentBytes+m.ContentBytes() > bundle.MaxBundleBytes:
		return fmt.Errorf(
			"its content of %d bytes does not fit into the bundle: the limit is %d bytes, and other modules use %d: "+
				"remove some of them", m.ContentBytes(), bundle.MaxBundleBytes, b.contentBytes)
	case b.documentBytes+encoded > bundle.MaxManifestsBytes:
		return fmt.Errorf(
			"its manifest of %d bytes does not fit into the bundle: the limit is %d bytes, and other modules use %d: "+
				"remove some of them", encoded, bundle.MaxManifestsBytes, b.documentBytes)
	}
	b.contentBytes += m.ContentBytes()
	b.documentBytes += encoded
	b.modules[m.Name] = m.Module
	return nil
}

func (b *sizeBudget) release(m bundle.Manifest) {
	b.contentBytes -= m.ContentBytes()
	b.documentBytes -= encodedSize(m)
	delete(b.modules, m.Name)
}

// encodedSize returns the size of the JSON encoding in bytes. If the encoding fails, it returns a size above all
// limits.
func encodedSize(m bundle.Manifest) int {
	encoded, err := json.Marshal(m)
	if err != nil {
		return bundle.MaxDocumentBytes + 1
	}
	return len(encoded)
}

// fitManifests omits modules that do not fit into the bundle, because an agent would refuse the whole bundle. It adds a
// Problem for each omitted module. Mandatory modules have priority, followed by installed versions, upgrades, and new
// modules.
func (r *Result) fitManifests(request Request) {
	b := sizeBudget{modules: map[string]string{}}
	fitting := map[string]*bundle.Manifest{}
	lasts := map[string]*bundle.Manifest{}
	var optional []bundle.Manifest
	for _, m := range r.State.Manifests {
		if lasts[m.Module] = request.supportedManifest(lastManifest(request.LastState,
			m.Module)); m.Labels[v1beta2.LabelMandatoryModule] != v1beta2.True {
			optional = append(optional, m)
			continue
		}
		r.chooseFitting(&b, m, lasts[m.Module], fitting)
	}
	for _, m := range optional {
		if last := lasts[m.Module]; last != nil && b.reserve(*last) == nil {
			fitting[m.Module] = last
		}
	}
	upgrades, added := partition(optional, func(m bundle.Manifest) bool { return lasts[m.Module] != nil })
	for _, m := range slices.Concat(upgrades, added) {
		if reserved := fitting[m.Module]; reserved != nil {
			b.release(*reserved)
		}
		r.chooseFitting(&b, m, lasts[m.Module], fitting)
	}
	r.fitTried(b, fitting)
	r.keepFitting(fitting, request)
	r.State.Leaving = slices.DeleteFunc(r.State.Leaving, func(m bundle.Manifest) bool { return b.reserve(m) != nil })
	r.fitOffers(b.modules)
	r.fitProblems()
	slices.SortStableFunc(r.State.Problems, func(a, b bundle.Problem) int { return cmp.Compare(a.Module, b.Module) })
}

func partition(all []bundle.Manifest, matches func(bundle.Manifest) bool) (yes, no []bundle.Manifest) {
	for _, m := range all {
		if matches(m) {
			yes = append(yes, m)
		} else {
			no = append(no, m)
		}
	}
	return yes, no
}

// chooseFitting adds a module's manifest to fitting. If the manifest does not fit into the bundle, it adds a Problem
// and uses the manifest from the last bundle instead.
func (r *Result) chooseFitting(
	b *sizeBudget, m bundle.Manifest, last *bundle.Manifest, fitting map[string]*bundle.Manifest,
) {
	delete(fitting, m.Module)
	err := b.reserve(m)
	if err == nil {
		fitting[m.Module] = &m
		return
	}
	r.addLimitProblem(m, err)
	if last != nil && b.reserve(*last) == nil {
		fitting[m.Module] = last
	}
}

// fitTried adds a Problem for each manifest in r.triedManifests that would not fit into the bundle. A rollout may
// install these versions later.
func (r *Result) fitTried(b sizeBudget, fitting map[string]*bundle.Manifest) {
	for _, m := range r.triedManifests {
		with := b
		with.modules = maps.Clone(b.modules)
		if reserved := fitting[m.Module]; reserved != nil {
			with.release(*reserved)
		}
		if err := with.reserve(m); err != nil {
			r.addLimitProblem(m, err)
		}
	}
}

// addLimitProblem adds a Problem for a manifest that does not fit into the bundle. err describes the exceeded limit.
func (r *Result) addLimitProblem(m bundle.Manifest, err error) {
	r.State.Problems = append(r.State.Problems, bundle.Problem{
		Module: m.Module, Channel: m.Channel, State: v1beta2.StateError, Reason: reason.BundleLimit,
		Message: fmt.Sprintf("module %s: %v", m.Module, err), Version: m.Version,
	})
}

// keepFitting replaces the manifest of each module with the module's manifest in fitting. It removes a module that is
// not in fitting.
func (r *Result) keepFitting(fitting map[string]*bundle.Manifest, request Request) {
	kept := make([]bundle.Manifest, 0, len(fitting))
	for _, m := range r.State.Manifests {
		if fits := fitting[m.Module]; fits != nil {
			kept = append(kept, *fits)
			r.Versions[m.Module] = fits.Version
			continue
		}
		delete(r.Versions, m.Module)
		if version := newerVersion(lastManifest(request.LastState, m.Module), request.Versions[m.Module]); version != "" {
			r.Versions[m.Module] = version
		}
	}
	r.State.Manifests = kept
}

// fitOffers limits the number and total size of the manifests in r.State.Offers, which the runtime can choose by
// itself. In each round, it adds at most one manifest per module, in order of size, so that one module cannot displace
// others. taken maps the Manifest names in use to modules.
func (r *Result) fitOffers(taken map[string]string) {
	type candidate struct{ index, round, size int }
	var candidates []candidate
	rounds := map[string]int{}
	for i, m := range r.State.Offers {
		if other, used := taken[m.Name]; m.Check() != nil || used && other != m.Module {
			continue
		}
		candidates = append(candidates, candidate{i, rounds[m.Module], encodedSize(m)})
		rounds[m.Module]++
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.size, b.size))
	})
	var fitting []int
	total := 0
	for _, c := range candidates {
		if len(fitting) < bundle.MaxOffers && total+c.size <= bundle.MaxOffersBytes {
			fitting, total = append(fitting, c.index), total+c.size
		}
	}
	slices.Sort(fitting)
	var offers []bundle.Manifest
	for _, i := range fitting {
		offers = append(offers, r.State.Offers[i])
	}
	r.State.Offers = offers
}

// fitProblems limits the number of problems and the size of their messages.
func (r *Result) fitProblems() {
	const most, mostBytes = 1_000, 2 << 10
	r.State.Problems = r.State.Problems[:min(len(r.State.Problems), most)]
	for i, problem := range r.State.Problems {
		r.State.Problems[i].Message = bundle.Bounded(problem.Message, mostBytes)
	}
}
