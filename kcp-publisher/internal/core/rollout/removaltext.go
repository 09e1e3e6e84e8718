package rollout

import (
	"fmt"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// IsRemoval reports whether a rollout removes the module from its runtimes.
func IsRemoval(spec fleet.RolloutSpec) bool { return spec.To == fleet.VersionRemoved }

// hasReturned reports whether a runtime has the version that a rollback must restore. After a removal, it is the
// runtime's own previous version.
func (p *plan) hasReturned(r *Runtime) bool {
	if IsRemoval(p.spec) {
		return r.Version != fleet.VersionRemoved
	}
	return r.Version == p.spec.From
}

// countPending counts a runtime that still has the module because the removal waits for an operator's approval. The
// runtime can be silent.
func (w *wave) countPending(m *member, r *Runtime) {
	if r.RemovalHeld && (m.state == waiting || m.state == silent) {
		w.unapproved++
	}
}

// isStartHeld reports whether no further wave can start: the rollout is paused, removals wait for an operator's
// approval, or other removals by the same edit can follow. In the last two cases, it also sets the rollout's message.
func (p *plan) isStartHeld(runtimes []Runtime, wave string) bool {
	if p.spec.Paused {
		return true
	}
	if waits := p.unapprovedMessage(); waits != "" {
		p.status.State, p.status.Message = fleet.RolloutWaiting, "wave "+wave+" "+waits
		return true
	}
	if p.isRemovalGrowing() && !p.isRemovalComplete(runtimes) {
		p.status.Message = "wave " + wave + " waits a few seconds for other removals by the same edit"
		return true
	}
	return false
}

// unapprovedMessage returns a message if removals wait for an operator's approval, or "". The first wave waits for the
// approval of all removals, so that one decision covers the whole rollout.
func (p *plan) unapprovedMessage() string {
	count := 0
	for i := range p.waves {
		count += p.waves[i].unapproved
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("waits for the approval of the removal from %d runtimes: see `kcp-publisher removals`", count)
}

// If one edit removes a module from several runtimes, the publisher decides about each runtime separately, and each
// shard decides at a different time. The first wave starts settleTime after the last decision. It does not wait if the
// decisions are more than maxSettleTime apart.
const settleTime, maxSettleTime = 5 * time.Second, time.Minute

// isRemovalGrowing reports whether additional runtimes can still change the waves of a removal. This is possible until
// the first wave starts. It affects only waves with a percentage or a count.
func (p *plan) isRemovalGrowing() bool {
	return IsRemoval(p.spec) && p.isActive() && len(p.status.Waves) > 0 && p.status.Waves[0].StartedAt == nil
}

// isRemovalComplete reports whether all runtimes that lose the module because of one edit are probably known.
func (p *plan) isRemovalComplete(runtimes []Runtime) bool {
	var first, last time.Time
	for i := range runtimes {
		decided := runtimes[i].RemovalDecidedAt
		if decided.IsZero() || runtimes[i].Version == fleet.VersionRemoved {
			continue
		}
		if decided.After(last) {
			last = decided
		}
		if first.IsZero() || decided.Before(first) {
			first = decided
		}
	}
	return !p.input.Now.Before(last.Add(settleTime)) || last.Sub(first) >= maxSettleTime
}

// joinedRemovalLate reports whether the publisher decided about the removal of a module from a runtime after the first
// wave started. Such a runtime must not enlarge a wave with a percentage or a count, because these waves were computed
// without it.
func (p *plan) joinedRemovalLate(r *Runtime) bool {
	if !IsRemoval(p.spec) || len(p.status.Waves) == 0 {
		return false
	}
	started := p.status.Waves[0].StartedAt
	return started != nil && r.RemovalDecidedAt.After(started.Time)
}

// These functions return parts of messages about a promoted version or a removal.

func (p *plan) promoted() string {
	if IsRemoval(p.spec) {
		return "the removal"
	}
	return "version " + p.spec.To
}

func (p *plan) subject() string {
	if IsRemoval(p.spec) {
		return "the removal"
	}
	return p.spec.To
}

func (p *plan) published() string {
	if IsRemoval(p.spec) {
		return "the removal"
	}
	return "the version"
}

func (p *plan) goal() string {
	if IsRemoval(p.spec) {
		return "removed"
	}
	return "ready"
}

func (p *plan) unaffectedState() string {
	if IsRemoval(p.spec) {
		return "lost the module"
	}
	return "have " + p.spec.To + " or a newer version"
}

func (p *plan) withdrawnMessage() string {
	if IsRemoval(p.spec) {
		return "the catalog offers module " + p.spec.Module + " again"
	}
	return "channel " + p.spec.Channel + " has " + p.spec.From + " again"
}
