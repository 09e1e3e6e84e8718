package export

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

// maxChain limits the number of bundles that AssignedRuntimes reads for one runtime.
const maxChain = 1000

// assignedReads is the number of runtimes whose bundles AssignedRuntimes reads at the same time.
const assignedReads = 16

// AssignedRuntimes returns one list of runtimes for each time. A list contains the module versions in each runtime's
// latest bundle at that time. Each bundle contains the digest of the previous one, so AssignedRuntimes reads a
// runtime's bundles one by one, starting with the newest. If it cannot read a runtime's bundles back to the earliest
// time, it omits the runtime from the lists and adds it to unread. It does the same with a runtime without a known
// bundle, unless the registry contains none either.
func AssignedRuntimes(
	ctx context.Context, options Options, runtimes []inventory.Runtime, times ...time.Time,
) (at [][]inventory.Runtime, unread []inventory.Unread, err error) {
	g := &gatherer{Options: options}
	states, problems := make([][]*inventory.Runtime, len(runtimes)), make([]error, len(runtimes))
	var reads errgroup.Group
	reads.SetLimit(assignedReads)
	for i := range runtimes {
		reads.Go(func() error {
			if ctx.Err() == nil {
				states[i], problems[i] = g.assignedStates(ctx, &runtimes[i], times)
			}
			return nil
		})
	}
	_ = reads.Wait() // ignore the error, which is always nil
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	at = make([][]inventory.Runtime, len(times))
	for i, found := range states {
		if problems[i] != nil {
			unread = append(unread, inventory.Unread{Runtime: runtimes[i].ID, Problem: problems[i].Error()})
			continue
		}
		for n := range times {
			if found[n] != nil {
				at[n] = append(at[n], *found[n])
			}
		}
	}
	return at, unread, nil
}

// RuntimesWithoutKyma returns the runtimes that have a repository for bundles in the registry, but no Kyma. The
// parameter known lists the runtimes with a Kyma. RuntimesWithoutKyma returns an error if the registry does not list
// its repositories.
func RuntimesWithoutKyma(ctx context.Context, options Options, known []string) ([]string, error) {
	names, err := store.Repositories(ctx, options.Place)
	if err != nil {
		return nil, err
	}
	return runtimesWithoutKyma(names, known), nil
}

func runtimesWithoutKyma(repositories, known []string) (ids []string) {
	isKnown := map[string]bool{}
	for _, id := range known {
		isKnown[id] = true
	}
	for _, name := range repositories {
		id, ok := strings.CutPrefix(name, bundle.DesiredRepository(""))
		if ok && !isKnown[id] && trust.CheckRuntimeID(id) == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// assignedStates returns a runtime's desired state at each of the times, or nil for a time before the runtime's first
// bundle.
func (g *gatherer) assignedStates(
	ctx context.Context, r *inventory.Runtime, times []time.Time,
) ([]*inventory.Runtime, error) {
	repository, err := g.Place.Reading(ctx, bundle.DesiredRepository(r.ID))
	if err != nil {
		return nil, err
	}
	found, open, next := make([]*inventory.Runtime, len(times)), len(times), r.Bundle
	if next == "" {
		return found, checkNeverPublished(ctx, repository)
	}
	for read := 0; next != "" && open > 0; read++ {
		if read == maxChain {
			return nil, fmt.Errorf("more than %d bundles were issued since the requested time", maxChain)
		}
		current := next
		verified, _, err := g.readVerified(ctx, repository, r.ID, current)
		if errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("bundle %s was not found in the registry", next)
		}
		if err != nil {
			return nil, fmt.Errorf("read bundle %s: %w", next, err)
		}
		p := verified.Statement.Predicate
		inForce := func(n int) bool { return found[n] == nil && !p.IssuedAt.After(times[n]) }
		if slices.ContainsFunc(newestFirst(times), inForce) {
			b, err := store.FetchBundle(ctx, repository, verified)
			if err != nil {
				return nil, fmt.Errorf("read bundle %s: %w", next, err)
			}
			state := inventory.Runtime{
				ID: r.ID, Reported: p.IssuedAt, Bundle: next, Modules: bundleModules(b), Kubernetes: r.Kubernetes,
			}
			for n := range times {
				if inForce(n) {
					found[n], open = &state, open-1
				}
			}
		}
		next = ""
		if before := p.Previous; before != nil {
			if open > 0 && before.Sequence >= p.Sequence {
				return nil, fmt.Errorf("bundle %s does not have a higher sequence than its previous bundle, so earlier "+
					"bundles are unknown", current)
			}
			next = before.Digest.String()
		}
	}
	return found, nil
}

// checkNeverPublished returns an error if a runtime without a recorded bundle has a bundle in the registry.
func checkNeverPublished(ctx context.Context, repository store.Reader) error {
	switch _, err := store.Head(ctx, repository, bundle.TagDesired); {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read the latest bundle: %w", err)
	}
	return errors.New("no published bundle is recorded")
}

func newestFirst(times []time.Time) []int {
	all := make([]int, len(times))
	for i := range all {
		all[i] = i
	}
	return all
}

func bundleModules(b bundle.Bundle) []inventory.Module {
	var modules []inventory.Module
	for _, m := range b.State.Manifests {
		modules = append(modules, inventory.Module{Name: m.Module, Version: m.Version})
	}
	return modules
}
