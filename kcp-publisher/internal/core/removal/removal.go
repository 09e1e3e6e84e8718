// Package removal decides which modules the publisher can remove from runtimes without an operator's approval. It does
// not consider removals that a runtime itself requests.
//
// Decide does not perform I/O. Its input covers the whole fleet, so that Decide can decide together about all
// removals that one edit causes.
package removal

import (
	"maps"
	"slices"
	"time"
)

// Removal is a module's removal from a runtime. An empty Module means all modules in a deleted Kyma.
type Removal struct{ Runtime, Module string }

// Reason is the reason why a removal requires approval.
type Reason string

// These are the reasons why a removal waits. The statuses of Kymas contain them, so do not rename them.
const (
	// FleetShare means that the pending removals affect a larger share of the fleet's runtimes than allowed.
	FleetShare Reason = "FleetShare"
	// ModuleCount means that, within Limits.Window, the same module is removed from too many runtimes.
	ModuleCount Reason = "ModuleCount"
	// Restored means that the Kyma's status is older than the runtime's state, for example because the control plane
	// was restored from a backup.
	Restored Reason = "Restored"
	// NamespaceDeleted means that the namespace of the Kymas is being deleted.
	NamespaceDeleted Reason = "NamespaceDeleted"
)

// Unrecorded is the reason in a Kyma's status for an allowed removal of a module that was known only from the runtime's
// report.
const Unrecorded Reason = "Unrecorded"

// PendingRemoval is a removal that no published bundle contains yet.
type PendingRemoval struct {
	Removal
	// HeldReason is the reason why an earlier decision made the removal wait, or empty.
	HeldReason Reason
	// Approved is true if an operator approved the removal.
	Approved bool
	// Restored is true if the Kyma's status is older than the runtime's state, as after a restore. It stays true until
	// a comparison with Git finds the newest commit completely applied.
	Restored bool
	// Unrecorded is true if the module is known only from the runtime's report. A report can contain invented modules,
	// so these removals are counted separately.
	Unrecorded bool
}

// Fleet is the input of Decide.
type Fleet struct {
	// Runtimes is the number of runtimes that have modules or recently had modules. It does not include runtimes that
	// never enrolled.
	Runtimes int
	// Pending contains all removals that no published bundle contains yet.
	Pending []PendingRemoval
	// Recent contains the removals that were allowed without approval within Limits.Window.
	Recent []Removal
	// RecentUnrecorded contains the other recent removals, whose modules were known only from reports.
	RecentUnrecorded []Removal
	// NamespaceDeleted is true if the namespace of the Kymas is being deleted.
	NamespaceDeleted bool
}

// Limits configures how many removals are allowed without approval.
type Limits struct {
	// Removals wait if the number of affected runtimes is greater than Percent of the fleet and also greater than
	// Count.
	Percent, Count int
	// PerModule limits the number of runtimes that lose the same module.
	PerModule int
	// Window is the time during which an allowed removal counts toward the limits.
	Window time.Duration
}

// MaxWindow is the maximum of Limits.Window.
const MaxWindow = 24 * time.Hour

// DefaultLimits contains the default limits.
var DefaultLimits = Limits{Percent: 10, Count: 1, PerModule: 50, Window: 10 * time.Minute}

// ForShard divides the limits among the shards, because each shard decides only about its own runtimes. Together, the
// shards' limits are as high as the configured limits. number is the number of the shard, starting with 0. shards is 0
// or 1 if one publisher decides about the whole fleet.
func (l Limits) ForShard(number, shards int) Limits {
	if shards <= 1 {
		return l
	}
	divide := func(limit int) int {
		part := limit / shards
		if number < limit%shards {
			part++
		}
		return part
	}
	l.Count, l.PerModule = divide(l.Count), divide(l.PerModule)
	return l
}

// Decide returns the pending removals that must wait for approval, with the reason. All other removals are allowed.
func (l Limits) Decide(f Fleet) map[Removal]Reason {
	recorded, unrecorded := f, f
	unrecorded.Recent = f.RecentUnrecorded
	isUnrecorded := func(p PendingRemoval) bool { return p.Unrecorded }
	recorded.Pending = slices.DeleteFunc(slices.Clone(f.Pending), isUnrecorded)
	unrecorded.Pending = slices.DeleteFunc(slices.Clone(f.Pending), func(p PendingRemoval) bool { return !p.Unrecorded })
	held := l.decide(recorded)
	maps.Copy(held, l.decide(unrecorded))
	return held
}

func (l Limits) decide(f Fleet) map[Removal]Reason {
	effect, held := f.countEffect(), map[Removal]Reason{}
	most := max(l.Count, f.Runtimes*l.Percent/100)
	for _, p := range f.Pending {
		switch {
		case p.Approved:
		case p.Restored:
			held[p.Removal] = Restored
		case f.NamespaceDeleted && p.Module == "":
			held[p.Removal] = NamespaceDeleted
		case p.isHeld():
			held[p.Removal] = p.HeldReason
		case effect.runtimesWithModule(p.Module) > most:
			held[p.Removal] = FleetShare
		case len(effect.perModule[p.Module]) > max(l.Count, l.PerModule):
			held[p.Removal] = ModuleCount
		}
	}
	return held
}

// isHeld reports whether an earlier decision made the removal wait and its reason still applies.
func (p PendingRemoval) isHeld() bool {
	return p.HeldReason != "" && (p.HeldReason != Restored || p.Restored)
}

// effectCounts counts the runtimes that lose modules. A removal that waits for approval counts toward
// Limits.PerModule, but not toward Limits.Percent and Limits.Count.
type effectCounts struct {
	// losingRuntimes contains the runtimes with a new or a recently allowed removal. waiting maps each module to the
	// runtimes in which its removal waits for approval. perModule maps each module to all affected runtimes.
	losingRuntimes     map[string]bool
	waiting, perModule map[string]map[string]bool
}

func (f Fleet) countEffect() effectCounts {
	e := effectCounts{map[string]bool{}, map[string]map[string]bool{}, map[string]map[string]bool{}}
	for _, r := range f.Recent {
		e.losingRuntimes[r.Runtime] = true
		addRemoval(e.perModule, r)
	}
	for _, p := range f.Pending {
		switch {
		case p.Approved:
			continue
		case p.isHeld():
			addRemoval(e.waiting, p.Removal)
		default:
			e.losingRuntimes[p.Runtime] = true
		}
		addRemoval(e.perModule, p.Removal)
	}
	return e
}

func addRemoval(counts map[string]map[string]bool, r Removal) {
	if counts[r.Module] == nil {
		counts[r.Module] = map[string]bool{}
	}
	counts[r.Module][r.Runtime] = true
}

// runtimesWithModule returns the number of runtimes that would lose modules if all waiting removals of this module were
// allowed.
func (e effectCounts) runtimesWithModule(module string) int {
	runtimes := len(e.losingRuntimes)
	for runtime := range e.waiting[module] {
		if !e.losingRuntimes[runtime] {
			runtimes++
		}
	}
	return runtimes
}
