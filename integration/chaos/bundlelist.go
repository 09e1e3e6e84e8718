package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bundles returns one line for each bundle that the registry accepted, grouped by runtime, in the order of
// acceptance. The lines help to explain violations.
func (c *Checker) Bundles() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(c.runtimes)) {
		for _, p := range c.runtimes[id].install.bundles {
			fmt.Fprintf(&b, "%s bundle %d of epoch %d at %s for key %q: versions %v, removals %v, rollbacks %v\n", id,
				p.Sequence, p.Epoch, p.Issued.Round(100*time.Millisecond), p.Key, p.Versions, p.Removals, p.Rollback)
		}
	}
	return b.String()
}
