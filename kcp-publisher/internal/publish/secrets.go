package publish

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// seal returns the encrypted Secrets for the next bundle. The bundle contains a module's Secret while the module is
// requested or installed, because the module may need the Secret for its cleanup. If the Secrets have not changed, seal
// returns those of the last bundle.
func seal(r plan.Runtime, last *plan.Published, asked []string) (*bundle.Sealed, error) {
	var before *bundle.Sealed
	if last != nil {
		before = last.Predicate.Sealed
	}
	if r.Secrets == nil || r.Deleting {
		return before, nil
	}
	next := bundle.Secrets{}
	kept := map[string]bool{}
	for _, s := range r.Secrets.All {
		if s.Module == "" || slices.Contains(asked, s.Module) || slices.Contains(r.Installed, s.Module) {
			next.Secrets = append(next.Secrets, s)
			kept[s.At()] = true
		}
	}
	for _, at := range r.Secrets.Known {
		if !kept[at] {
			next.Removals = append(next.Removals, at)
		}
	}
	none := len(next.Secrets)+len(next.Removals) == 0
	if r.Secrets.Recipient == "" {
		// The agent has no key for Secrets and would refuse a bundle that contains Secrets.
		if none {
			return nil, nil
		}
		return nil, errors.New("the runtime's agent reports no recipient for Secrets: upgrade the agent")
	}
	next, tooMuch := next.Fitting(r.ID)
	nothingFits := len(next.Secrets)+len(next.Removals) == 0
	if nothingFits || before != nil && before.Revision == next.RevisionFor(r.Secrets.Recipient) {
		return before, wrapped(tooMuch)
	}
	sealed, err := next.Seal(r.ID, r.Secrets.Recipient)
	if err != nil {
		return before, wrapped(err)
	}
	return sealed, wrapped(tooMuch)
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("seal Secrets: %w", err)
}
