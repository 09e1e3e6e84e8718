package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// End is the state of one runtime after all faults have ended.
type End struct {
	Runtime string
	// Wanted maps the requested modules to their versions. Has maps the installed modules to their versions.
	Wanted, Has map[string]string
	// State is the state of the runtime's Kyma in the control plane, or empty if the Kyma does not exist. Gone is
	// true if the Kyma was deleted.
	State string
	Gone  bool
	// Published and Observed are the content digests of the published and the reported bundle in the Kyma's status. A
	// renewed bundle has the same content, so a renewal between two reads changes nothing.
	Published, Observed string
	// RevokedKey is the key that signed the reported bundle if the root of trust revokes this key. Otherwise, it is
	// empty.
	RevokedKey string
	// InRegistry is the content digest of the bundle in the registry.
	InRegistry string
	// Objects lists all objects of the modules. Expected lists the objects that must exist. Both are nil for a
	// simulated runtime.
	Objects, Expected []string
}

// Judge returns the reasons why the fleet has not converged, or nil if it has.
func Judge(ends []End) (problems []string) {
	for _, e := range ends {
		add := func(format string, args ...any) {
			problems = append(problems, e.Runtime+" "+fmt.Sprintf(format, args...))
		}
		if !maps.Equal(e.Has, e.Wanted) {
			add("has modules %v, want %v", e.Has, e.Wanted)
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
		if e.RevokedKey != "" {
			add("follows a bundle with content %s, whose key %s is revoked", short(e.Observed), e.RevokedKey)
		}
		if e.Published == "" || e.Published != e.Observed || e.Published != e.InRegistry {
			add("was published content %s, the registry has content %s, and its report has content %s",
				short(e.Published), short(e.InRegistry), short(e.Observed))
		}
	}
	return problems
}

func short(digest string) string {
	_, encoded, _ := strings.Cut(digest, ":")
	return encoded[:min(12, len(encoded))]
}

// Sample is the resource usage of a program.
type Sample struct {
	// Role names a group of programs with similar resource usage, such as all publishers.
	Program, Role string
	Bytes         int64
	Goroutines    int
}

// Allowed growth in a program's memory and goroutines during a run.
const (
	moreBytes      = 96 << 20
	moreGoroutines = 100
)

// Grown compares each program with the earlier samples of all programs with the same role, because another publisher
// can become the leader. It returns a message for each program that uses much more memory or many more goroutines than
// any of them did.
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
			continue // no earlier sample has this role
		}
		if n.Bytes > 2*most.Bytes+moreBytes {
			problems = append(problems,
				fmt.Sprintf("%s uses %d MiB, but earlier a %s used at most %d MiB", n.Program, n.Bytes>>20, n.Role,
					most.Bytes>>20))
		}
		if n.Goroutines > 2*most.Goroutines+moreGoroutines {
			problems = append(problems,
				fmt.Sprintf("%s has %d goroutines, but earlier a %s had at most %d", n.Program, n.Goroutines, n.Role,
					most.Goroutines))
		}
	}
	return problems
}
