package publish

import (
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Secrets are what the control plane has for one runtime.
type Secrets struct {
	// Recipient is whom they are encrypted to, empty before the runtime has said so.
	Recipient string
	All       []bundle.RuntimeSecret
}

// seal gives what the next bundle says about Secrets: those of the modules that are asked for. What is sealed already is not sealed
// again. Nothing is said before there is something to say; from then on it is said in every bundle, so that the last Secret can go, too.
// An error leaves what the last bundle said.
func seal(r Runtime, last *Published, asked []string) (*bundle.Sealed, error) {
	var before *bundle.Sealed
	if last != nil {
		before = last.Predicate.Sealed
	}
	if r.Secrets == nil {
		return before, nil
	}
	wanted := slices.DeleteFunc(slices.Clone(r.Secrets.All), func(s bundle.RuntimeSecret) bool { return !slices.Contains(asked, s.Module) })
	if len(wanted) == 0 && before == nil {
		return nil, nil
	}
	if r.Secrets.Recipient == "" {
		return before, fmt.Errorf("runtime %s has %d Secrets that wait: its agent has not said whom to encrypt them to", r.ID, len(wanted))
	}
	if revision(before) == bundle.SealedRevision(r.Secrets.Recipient, wanted) {
		return before, nil
	}
	sealed, err := bundle.Seal(r.ID, r.Secrets.Recipient, wanted)
	if err != nil {
		return before, err
	}
	return sealed, nil
}

func revision(s *bundle.Sealed) string {
	if s == nil {
		return ""
	}
	return s.Revision
}
