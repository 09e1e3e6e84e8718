// Package removal decides which modules the control plane may take from runtimes now. It judges effects: which runtimes
// lose a module, not which edit, deletion or commit causes the loss. Removals that a runtime's own signed report
// requests are no input; they always pass.
//
// Decide is pure. Its input is the whole fleet at one moment, so that one edit with a large effect is judged as a
// whole: either all of its removals are allowed, or all of them wait. A removal that waits keeps waiting until an
// operator approves it or its cause is withdrawn.
package removal

import (
	"time"
)

// Removal is a module that a runtime loses. Without a module, the runtime loses all modules because its Kyma is
// deleted.
type Removal struct{ Runtime, Module string }

// Reason is the reason why a removal waits.
type Reason string

// The reasons of removals that wait. They are in the status of Kymas: extend, do not rename.
const (
	// FleetShare: together with other removals it affects more than the allowed share of runtimes.
	FleetShare Reason = "FleetShare"
	// ModuleCount: the module is removed from more runtimes than allowed within the window.
	ModuleCount Reason = "ModuleCount"
	// Restored: the control plane's record is older than the runtime's state, as after a restore from a backup.
	Restored Reason = "Restored"
	// NamespaceDeleted: the namespace of the Kymas is being deleted.
	NamespaceDeleted Reason = "NamespaceDeleted"
)

// Pending is a removal that no bundle names yet.
type Pending struct {
	Removal
	// Held is the reason of an earlier decision to wait, empty without one.
	Held Reason
	// Approved: an operator approved the removal.
	Approved bool
	// Restored: the control plane's record was older than the runtime's state when the removal was found, and Git's
	// newest commit has not been applied since.
	Restored bool
}

// Fleet is the state that a decision depends on.
type Fleet struct {
	// Runtimes is the number of runtimes that the publisher publishes to.
	Runtimes int
	// Pending are all removals that no bundle names yet.
	Pending []Pending
	// Recent are the removals that were allowed within Limits.Window, except for approved ones.
	Recent []Removal
	// NamespaceDeleted: the namespace of the Kymas is being deleted.
	NamespaceDeleted bool
}

// Limits bound the removals that need no approval.
type Limits struct {
	// Percent and Count limit the affected runtimes. Removals wait if they exceed both.
	Percent, Count int
	// PerModule limits the runtimes that lose one module. At least Count runtimes may lose it.
	PerModule int
	// Window is the time that an allowed removal counts.
	Window time.Duration
}

// MaxWindow is the longest window: decisions are recorded for as long.
const MaxWindow = 24 * time.Hour

// Default are the limits of a publisher without other flags.
var Default = Limits{Percent: 10, Count: 1, PerModule: 50, Window: 10 * time.Minute}

// Decide returns the pending removals that wait, with the reason. All others are allowed.
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

// waits reports whether an earlier decision to wait is still valid.
func (p Pending) waits() bool { return p.Held != "" && (p.Held != Restored || p.Restored) }

// effect is the loss of a fleet unless removals wait. Removals that already wait affect no runtime, so that a large
// change that waits does not stop a small one. They count for their module: a runtime that joins them later is part of
// the same change.
type effect struct {
	// losing are the runtimes that lose anything, waiting those that would lose a module later, perModule both.
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

// with returns how many runtimes lose anything if the removals of a module that wait are part of the same change.
func (e effect) with(module string) int {
	runtimes := len(e.losing)
	for runtime := range e.waiting[module] {
		if !e.losing[runtime] {
			runtimes++
		}
	}
	return runtimes
}
