package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// The annotations moves-to and moves-from declare that an object moves between two modules whose new versions reach the
// runtime with different bundles. Both versions contain the object, and the two requested versions decide which module
// owns it. The other module's plan does not contain the object. The order in which the versions arrive has no effect.

// content returns a Manifest's plan without the objects that its module leaves to other modules. current is the
// Manifest that the caller reconciles, or nil. It replaces the cached copy of that Manifest, which can be outdated.
func (pl *planner) content(
	ctx context.Context, m *v1beta2.Manifest, inventory []v1beta2.Resource, current *v1beta2.Manifest,
) (planning.Plan, *outcome.Finding, error) {
	p, problem, err := pl.rendered(ctx, m, inventory)
	if err != nil || problem != nil {
		return planning.Plan{}, problem, err
	}
	if err := pl.yield(ctx, m, &p, inventory, current); err != nil {
		return planning.Plan{}, nil, err
	}
	return p, nil, nil
}

// yield removes from a module's plan the objects that the module leaves to other modules.
func (pl *planner) yield(
	ctx context.Context, m *v1beta2.Manifest, p *planning.Plan, inventory []v1beta2.Resource, current *v1beta2.Manifest,
) error {
	if len(p.Moves) == 0 {
		return nil
	}
	partners, err := pl.partners(ctx, m, p.Moves.Modules(), current)
	if err != nil {
		return err
	}
	var others []planning.Claims
	for _, partner := range partners {
		claims, err := pl.claimsOf(ctx, partner, partner != current)
		if err != nil {
			return err
		}
		others = append(others, claims)
	}
	p.Partners = pl.describePartners(partners)
	p.Yield(planning.Yields(p.Claims(m.Module()), others), inventory)
	return nil
}

// partners returns the Manifests of modules, sorted by name, except Manifests that are being removed.
func (pl *planner) partners(
	ctx context.Context, m *v1beta2.Manifest, modules []string, current *v1beta2.Manifest,
) ([]*v1beta2.Manifest, error) {
	if len(modules) == 0 {
		return nil, nil
	}
	others, err := pl.otherManifests(ctx, m)
	if err != nil {
		return nil, err
	}
	var partners []*v1beta2.Manifest
	for _, other := range others {
		if current != nil && other.Name == current.Name {
			other = current
		}
		if slices.Contains(modules, other.Module()) && (other.DeletionTimestamp.IsZero() || !pl.records.HasRemoval(other)) {
			partners = append(partners, other)
		}
	}
	slices.SortFunc(partners, func(a, b *v1beta2.Manifest) int { return cmp.Compare(a.Name, b.Name) })
	return partners, nil
}

// describePartners returns text that changes if different objects can move to or from the partners.
func (pl *planner) describePartners(partners []*v1beta2.Manifest) string {
	var text string
	for _, partner := range partners {
		text += fmt.Sprintf("%s %t\n", pl.claimsInput(partner), planning.IsActive(pl.records, partner))
	}
	return text
}

// partnersChanged reports whether the Manifests of a module's partners have changed since the module's last comparison.
// The partners are the modules that the module moves objects to or from.
func (pl *planner) partnersChanged(ctx context.Context, m *v1beta2.Manifest, known *memo) (bool, error) {
	if len(known.partnerModules) == 0 {
		return false, nil
	}
	partners, err := pl.partners(ctx, m, known.partnerModules, nil)
	return err == nil && pl.describePartners(partners) != known.partners, err
}

// claimsOf returns a module's objects and moves. If the agent does not install the Manifest or cannot render its
// content, the claims are the Manifest's inventory. useCache must be false for a Manifest that differs from the cached
// Manifest.
func (pl *planner) claimsOf(
	ctx context.Context, m *v1beta2.Manifest, useCache bool,
) (planning.Claims, error) {
	installed := planning.Claims{Module: m.Module(), Objects: pl.correctedObjects(m)}
	if !planning.IsActive(pl.records, m) {
		return installed, nil
	}
	if known, ok := pl.claimed.get(m, pl.claimsInput(m)); ok && useCache && known.Objects != nil {
		return known, nil
	}
	p, problem, err := pl.rendered(ctx, m, nil)
	if err != nil {
		return planning.Claims{}, fmt.Errorf("render module %s to find the objects that move: %w", m.Module(), err)
	}
	if problem != nil {
		return installed, nil
	}
	claims := p.Claims(m.Module())
	if useCache {
		pl.claimed.keep(m, pl.claimsInput(m), claims, true)
	}
	return claims, nil
}

// takenObjects returns the objects that another module's requested version can take over from m's module. isMissing is
// true if the content of this version is missing.
func (pl *planner) takenObjects(
	ctx context.Context, m, other *v1beta2.Manifest, isInstalled bool, dropped []v1beta2.Resource,
) (wants object.Keys, isMissing bool, err error) {
	wants = pl.correctedObjects(other)
	declares, err := pl.declaresMove(ctx, other, isInstalled, dropped)
	if err != nil || isInstalled && !declares {
		return wants, false, err
	}
	now, problem, err := pl.wantedObjects(ctx, other, m)
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("render module %s to find the objects that it takes over: %w", other.Module(), err)
	case problem == nil:
		return now, false, nil
	case !isInstalled:
		wants = nil
	}
	return wants, problem.Reason == v1beta2.ReasonContentMissing, nil
}

// declaresMove reports whether an installed module's content declares a move of one of the dropped objects.
func (pl *planner) declaresMove(
	ctx context.Context, m *v1beta2.Manifest, isInstalled bool, dropped []v1beta2.Resource,
) (bool, error) {
	if !isInstalled {
		return false, nil
	}
	known, ok := pl.claimed.get(m, pl.claimsInput(m))
	if !ok {
		p, problem, err := pl.rendered(ctx, m, nil)
		if err != nil {
			return false, fmt.Errorf("render module %s to find the objects that move: %w", m.Module(), err)
		}
		if problem != nil {
			return false, nil
		}
		known = p.Claims(m.Module())
		pl.claimed.keep(m, pl.claimsInput(m), known, false)
	}
	return slices.ContainsFunc(dropped, func(r v1beta2.Resource) bool {
		_, moves := known.Moves[object.KeyOf(r)]
		return moves
	}), nil
}

// claimsInput returns a string that is equal only for Manifests with equal claims.
func (pl *planner) claimsInput(m *v1beta2.Manifest) string {
	return planning.Input(m, pl.owner(m)) + " " + planning.WantedDigest(m)
}

// wantedObjects returns the requested version's objects, including its default CR. problem is the reason why the
// content cannot be rendered or installed. current is the Manifest that the caller reconciles.
func (pl *planner) wantedObjects(
	ctx context.Context, m, current *v1beta2.Manifest,
) (wants object.Keys, problem *outcome.Finding, err error) {
	p, problem, err := pl.content(ctx, m, nil, current)
	if err != nil || problem != nil {
		return nil, problem, err
	}
	wants = object.KeysOf(p.Inventory)
	if p.DefaultCR != nil {
		wants[guard.KeyOf(p.DefaultCR)] = struct{}{}
	}
	return wants, nil, nil
}
