// Package removal decides which modules the control plane can remove from runtimes without an operator's approval.
// Removals that a runtime itself requests are not part of the input.
//
// Decide is pure. Its input is the whole fleet, so it decides about all removals of one edit together.
package removal

import (
	"time"
)

// Removal is a module that a runtime loses. An empty Module means all modules of a deleted Kyma.
type Removal struct{ Runtime, Module string }

// Reason is the reason why a removal requires an approval.
type Reason string

// Reasons why removals wait. The status of Kymas contains them, so do not rename them.
const (
	// FleetShare means that the pending removals affect more than the allowed share of runtimes.
	FleetShare Reason = "FleetShare"
	// ModuleCount means that the module is removed from too many runtimes within the window.
	ModuleCount Reason = "ModuleCount"
	// Restored means that the control plane's record is older than the runtime's state, as after a restore from a
	// backup.
	Restored Reason = "Restored"
	// NamespaceDeleted means that the namespace of the Kymas is being deleted.
	NamespaceDeleted Reason = "NamespaceDeleted"
)

// Pending is a removal that was not published yet.
type Pending struct {
	Removal
	// Held is the reason of an earlier decision against the removal, or empty.
	Held Reason
	// Approved is true if an operator approved the removal.
	Approved bool
	// Restored is true if the control plane's record was older than the runtime's state and the newest Git commit was
	// not applied since then.
	Restored bool
}

// Fleet is the input of a decision.
type Fleet struct {
	// Runtimes is the number of runtimes that have or recently had modules to lose. Kymas without an enrolled runtime
	// do not count.
	Runtimes int
	// Pending are all removals that were not published yet.
	Pending []Pending
	// Recent are the removals that were allowed without an approval within Limits.Window.
	Recent []Removal
	// NamespaceDeleted is true if the namespace of the Kymas is being deleted.
	NamespaceDeleted bool
}

// Limits limits the removals without an approval.
type Limits struct {
	// Percent and Count limit the affected runtimes. Removals wait if their number exceeds both.
	Percent, Count int
	// PerModule limits the number of runtimes that lose the same module.
	PerModule int
	// Window is how long an allowed removal counts toward the limits.
	Window time.Duration
}

// MaxWindow is the maximum of Limits.Window.
const MaxWindow = 24 * time.Hour

// Default are the default limits.
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

// waits reports whether the reason of an earlier decision still applies.
func (p Pending) waits() bool { return p.Held != "" && (p.Held != Restored || p.Restored) }

// effect counts the runtimes that lose modules. Waiting removals count toward the limit of their module, but not toward
// the share of the fleet.
type effect struct {
	// losing are the runtimes with a new or recently allowed removal. waiting are the runtimes with a waiting removal,
	// by module. perModule are all affected runtimes, by module.
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

// with returns the number of runtimes in e.losing or e.waiting[module].
func (e effect) with(module string) int {
	runtimes := len(e.losing)
	for runtime := range e.waiting[module] {
		if !e.losing[runtime] {
			runtimes++
		}
	}
	return runtimes
}
