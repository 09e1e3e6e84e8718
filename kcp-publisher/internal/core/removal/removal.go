// Package removal decides which modules the control plane can remove from runtimes without an operator's approval. It
// counts the runtimes that lose a module, regardless of the edit, deletion or commit that causes the removal. Removals
// that a runtime's own signed report requests are always allowed and are not part of the input.
//
// Decide is pure. Its input is the whole fleet at one moment, so all removals of one edit are decided together: either
// all of them are allowed, or all of them wait. A removal waits until an operator approves it or reverts its cause.
package removal

import (
	"time"
)

// Removal is a module that a runtime loses. If Module is empty, the Kyma is deleted and the runtime loses all modules.
type Removal struct{ Runtime, Module string }

// Reason is the reason why a removal waits.
type Reason string

// The reasons why removals wait. The status of Kymas contains them, so do not rename them.
const (
	// FleetShare: all pending removals together affect more than the allowed share of runtimes.
	FleetShare Reason = "FleetShare"
	// ModuleCount: the module is removed from more runtimes than allowed within the window.
	ModuleCount Reason = "ModuleCount"
	// Restored: the control plane's record is older than the runtime's state, as after a restore from a backup.
	Restored Reason = "Restored"
	// NamespaceDeleted: the namespace of the Kymas is being deleted.
	NamespaceDeleted Reason = "NamespaceDeleted"
)

// Pending is a removal that is not in a published bundle yet.
type Pending struct {
	Removal
	// Held is the reason of an earlier decision to hold the removal. It is empty if no such decision was made.
	Held Reason
	// Approved: an operator approved the removal.
	Approved bool
	// Restored: the control plane's record was older than the runtime's state when the removal was found, and the
	// newest Git commit has not been applied since then.
	Restored bool
}

// Fleet is the state that a decision depends on.
type Fleet struct {
	// Runtimes is the number of runtimes that have modules to lose, or lost modules within Limits.Window. Kymas without
	// an enrolled runtime do not count, because anyone who can create Kymas could otherwise raise the limits.
	Runtimes int
	// Pending are all removals that are not in a published bundle yet.
	Pending []Pending
	// Recent are the removals that were allowed within Limits.Window without an approval.
	Recent []Removal
	// NamespaceDeleted: the namespace of the Kymas is being deleted.
	NamespaceDeleted bool
}

// Limits limits the removals that need no approval.
type Limits struct {
	// Percent and Count limit the affected runtimes. Removals wait if their number exceeds both limits.
	Percent, Count int
	// PerModule limits the number of runtimes that lose the same module. If Count is larger, Count applies.
	PerModule int
	// Window is how long an allowed removal counts toward the limits.
	Window time.Duration
}

// MaxWindow is the longest allowed window. Decisions are recorded for that time.
const MaxWindow = 24 * time.Hour

// Default are the limits if no flags change them.
var Default = Limits{Percent: 10, Count: 1, PerModule: 50, Window: 10 * time.Minute}

// Decide returns the pending removals that must wait, with the reason. All other removals are allowed.
func (l Limits) Decide(f Fleet) map[Removal]Reason {
	effect, held := f.effect(), map[Removal]Reason{}
	most := max(l.Count, f.Runtimes*l.Percent/100)
	for _, p := range f.Pending {
		switch {
		case p.Approved:
		case p.Restored:
			held[p.Removal] = Restored
		case f.NamespaceDeleted && p.Module == "":
			held[p.Removal] = NamespaceDeleted
		case p.waits():
			held[p.Removal] = p.Held
		case effect.with(p.Module) > most:
			held[p.Removal] = FleetShare
		case len(effect.perModule[p.Module]) > max(l.Count, l.PerModule):
			held[p.Removal] = ModuleCount
		}
	}
	return held
}

// waits reports whether the removal was held earlier and the reason for that still applies.
func (p Pending) waits() bool { return p.Held != "" && (p.Held != Restored || p.Restored) }

// effect counts the runtimes that lose modules. Removals that already wait do not count toward the share of the fleet,
// so a large change that waits does not block a small change. They count toward the limit of their module, because a
// later removal of the same module is part of the same change.
type effect struct {
	// losing are the runtimes with a new or recently allowed removal. waiting are the runtimes whose removal already
	// waits, by module. perModule are all affected runtimes, by module.
	losing             map[string]bool
	waiting, perModule map[string]map[string]bool
}

func (f Fleet) effect() effect {
	e := effect{map[string]bool{}, map[string]map[string]bool{}, map[string]map[string]bool{}}
	for _, r := range f.Recent {
		e.losing[r.Runtime] = true
		add(e.perModule, r)
	}
	for _, p := range f.Pending {
		switch {
		case p.Approved:
			continue
		case p.waits():
			add(e.waiting, p.Removal)
		default:
			e.losing[p.Runtime] = true
		}
		add(e.perModule, p.Removal)
	}
	return e
}

func add(to map[string]map[string]bool, r Removal) {
	if to[r.Module] == nil {
		to[r.Module] = map[string]bool{}
	}
	to[r.Module][r.Runtime] = true
}

// with returns the number of runtimes that are in e.losing or in e.waiting[module].
func (e effect) with(module string) int {
	runtimes := len(e.losing)
	for runtime := range e.waiting[module] {
		if !e.losing[runtime] {
			runtimes++
		}
	}
	return runtimes
}
