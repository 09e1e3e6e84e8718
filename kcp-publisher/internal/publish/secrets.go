package publish

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// seal returns what the next bundle says about Secrets, and what it says already is not sealed again. A Secret is kept
// while its module is asked for or still there, for a module may need it to clean up; what else is known is to go.
// Nothing known is nothing to say: what the last bundle said stays. So it does with Secrets that cannot be sealed; one
// that does not fit is left out, and stays in the runtime as it is.
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
		// Such an agent would refuse a bundle with anything sealed.
		if none {
			return nil, nil
		}
		return nil, errors.New("the runtime's agent does not say whom to encrypt Secrets to: it needs a newer version")
	}
	next, tooMuch := next.Fitting(r.ID)
	nothingFits := len(next.Secrets)+len(next.Removals) == 0
	if nothingFits || before != nil && before.Revision == next.Named(r.Secrets.Recipient) {
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
