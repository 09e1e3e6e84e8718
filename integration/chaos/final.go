package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// End is what one runtime has and says after the faults have ended.
type End struct {
	Runtime string
	// Wanted and Has are modules with their versions.
	Wanted, Has map[string]string
	// State is that of its Kyma in the control plane, empty where there is none, and Gone says that there must be none.
	State string
	Gone  bool
	// Published and Observed are digests of bundles, as the control plane says.
	Published, Observed string
	// InRegistry is the digest of the bundle in the registry.
	InRegistry string
	// Objects are all of the modules' objects, and Expected those that have to be there; nil for a simulated runtime,
	// which has none.
	Objects, Expected []string
}

// Judge returns what keeps a fleet from having converged, nil when nothing does.
func Judge(ends []End) (problems []string) {
	for _, e := range ends {
		add := func(format string, args ...any) {
			problems = append(problems, e.Runtime+" "+fmt.Sprintf(format, args...))
		}
		if !maps.Equal(e.Has, e.Wanted) {
			add("has %v, wanted %v", e.Has, e.Wanted)
		}
		for _, o := range e.Objects {
			if !slices.Contains(e.Expected, o) {
				add("has %s left over", o)
			}
		}
		for _, o := range e.Expected {
			if !slices.Contains(e.Objects, o) {
				add("has no %s", o)
			}
		}
		if e.Gone {
			if e.State != "" {
				add("was deleted, and its Kyma is %s", e.State)
			}
			continue
		}
		if e.State != "Ready" {
			add("is %q in the control plane", e.State)
		}
		if e.Published == "" || e.Published != e.Observed || e.Published != e.InRegistry {
			add("was published %s, the registry has %s, and it reports %s", short(e.Published), short(e.InRegistry), short(e.Observed))
		}
	}
	return problems
}

func short(digest string) string {
	_, encoded, _ := strings.Cut(digest, ":")
	return encoded[:min(12, len(encoded))]
}

// Sample is what a program uses.
type Sample struct {
	// Role is what programs have in common that may use as much as each other.
	Program, Role string
	Bytes         int64
	Goroutines    int
}

// How much more a program may use at the end than when it had just begun to work: what is bounded by the fleet's size,
// not by time.
const (
	moreBytes      = 96 << 20
	moreGoroutines = 100
)

// Grown returns which programs use more than they may, compared with the most that one of their role used before: who
// leads changes.
func Grown(before, now []Sample) (problems []string) {
	for _, n := range now {
		var most Sample
		for _, b := range before {
			if b.Role == n.Role {
				most.Role = b.Role
				most.Bytes, most.Goroutines = max(most.Bytes, b.Bytes), max(most.Goroutines, b.Goroutines)
			}
		}
		if most.Role == "" {
			continue // nobody said what such a program used before
		}
		if n.Bytes > 2*most.Bytes+moreBytes {
			problems = append(problems, fmt.Sprintf("%s uses %d MiB, and %ss used %d", n.Program, n.Bytes>>20, n.Role, most.Bytes>>20))
		}
		if n.Goroutines > 2*most.Goroutines+moreGoroutines {
			problems = append(problems, fmt.Sprintf("%s has %d goroutines, and %ss had %d", n.Program, n.Goroutines, n.Role, most.Goroutines))
		}
	}
	return problems
}
