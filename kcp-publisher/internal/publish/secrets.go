package publish

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// sealSecrets returns the encrypted Secrets for the next bundle. A module's Secret stays in the bundle until the
// module has been removed from the runtime, because the module may need the Secret for its cleanup. If the Secrets
// have not changed, sealSecrets returns the last bundle's Secrets. If the Kyma is being deleted, the result lists only
// the names of all Secrets in the runtime, which the agent deletes after the last module. removals lists the Secrets
// that the result removes. It is nil if the result does not contain the current Secrets.
func sealSecrets(
	r plan.Runtime, last *plan.PublishedBundle, requested []string,
) (sealed *bundle.Sealed, removals []string, err error) {
	var before *bundle.Sealed
	if last != nil {
		before = last.Predicate.Sealed
	}
	if r.Secrets == nil {
		return before, nil, nil
	}
	if r.IsDeleting {
		return sealNames(r, before), nil, nil
	}
	if before != nil && before.Recipient != r.Secrets.Recipient {
		before = nil // the agent cannot decrypt Secrets for its former key
	}
	next := bundle.Secrets{}
	kept := map[string]bool{}
	for _, s := range r.Secrets.Published {
		if s.Module == "" || slices.Contains(requested, s.Module) || slices.Contains(r.Installed, s.Module) {
			next.Secrets = append(next.Secrets, s)
			kept[s.NamespacedName()] = true
		}
	}
	for _, at := range r.Secrets.KnownNames {
		if !kept[at] {
			next.Removals = append(next.Removals, at)
		}
	}
	none := len(next.Secrets)+len(next.Removals) == 0
	if r.Secrets.Recipient == "" {
		// The agent has not reported a recipient key for Secrets, so it would refuse a bundle that contains Secrets.
		if none {
			return nil, nil, nil
		}
		return nil, nil, errors.New("the runtime's agent does not report a recipient for Secrets: upgrade the agent")
	}
	next, tooMuch := next.SelectFitting(r.ID)
	switch {
	case len(next.Secrets)+len(next.Removals) == 0:
		return before, nil, wrapSealError(tooMuch)
	case before != nil && before.Revision == next.RevisionFor(r.Secrets.Recipient):
		return before, next.Removals, wrapSealError(tooMuch)
	}
	if sealed, err = next.Seal(r.ID, r.Secrets.Recipient); err != nil {
		return before, nil, wrapSealError(err)
	}
	return sealed, next.Removals, wrapSealError(tooMuch)
}

// sealNames returns the names of all Secrets in the runtime of a deleted Kyma, encrypted. It returns before if there
// are none or they cannot be encrypted.
func sealNames(r plan.Runtime, before *bundle.Sealed) *bundle.Sealed {
	all, _ := bundle.Secrets{Removals: r.Secrets.RecordedNames}.SelectFitting(r.ID)
	if len(all.Removals) == 0 || r.Secrets.Recipient == "" ||
		before != nil && before.Revision == all.RevisionFor(r.Secrets.Recipient) {
		return before
	}
	sealed, err := all.Seal(r.ID, r.Secrets.Recipient)
	if err != nil {
		return before
	}
	return sealed
}

func wrapSealError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("seal Secrets: %w", err)
}
