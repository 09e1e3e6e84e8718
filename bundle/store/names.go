package store

import (
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Limits for a list of tags or repositories. A list with a million names in pages of 100 names is within the limits.
const (
	maxNamesBytes = 128 << 20
	maxNamesPages = 10_000
	// nameBytes is the overhead per name in a slice.
	nameBytes = 16
)

// names collects the pages from a list of tags or repositories. Without limits, a registry could return endless pages.
type names struct {
	all          []string
	bytes, pages int
}

// add calls keep for each name on the next page and adds the result. It omits a name if keep returns false.
func (n *names) add(page []string, keep func(string) (string, bool)) error {
	if n.pages++; n.pages > maxNamesPages {
		return refuseNames("%d pages", maxNamesPages)
	}
	for _, name := range page {
		kept, ok := keep(name)
		if !ok {
			continue
		}
		if n.bytes += len(kept) + nameBytes; n.bytes > maxNamesBytes {
			return refuseNames("%d MiB", maxNamesBytes>>20)
		}
		n.all = append(n.all, kept)
	}
	return nil
}

func refuseNames(format string, limit int) error {
	return refusal.New(refusal.TooLarge, "the list of names has more than %s", fmt.Sprintf(format, limit))
}
