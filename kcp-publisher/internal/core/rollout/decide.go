package rollout

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// decide returns every runtime its version.
func (p *plan) decide(runtimes []Runtime) []Decision {
	if p.status.State == fleet.RolloutSuperseded || p.status.State == fleet.RolloutSucceeded {
		return nil
	}
	back := p.back()
	held := make([]string, len(p.spec.Waves)+1)
	for i := range held {
		held[i] = p.held(i - 1)
	}
	decisions := make([]Decision, len(runtimes))
	for i := range runtimes {
		r, m := &runtimes[i], &p.members[i]
		has := r.Version == p.spec.To
		switch {
		case back && m.touched && has:
			decisions[i] = Decision{Version: p.spec.From, Undo: p.spec.To, Held: held[m.wave+1]}
		case has || m.granted:
			decisions[i] = Decision{Version: p.spec.To}
		default:
			decisions[i] = Decision{Version: Keep(p.spec.From, r.Version), Held: held[m.wave+1]}
		}
		// The version it went back to was an undoing, too, for whoever did not hear of it yet.
		if back && m.touched && !has {
			decisions[i].Undo = p.spec.To
		}
	}
	return decisions
}

// Keep is the version that a held runtime has: the last good one, or its own if that is newer.
func Keep(good, own string) string {
	if own == "" || own == good || good != "" && bundle.Older(own, good) {
		return good
	}
	return own
}

// held says why a runtime of a wave is held, in words that change only when its wave does.
func (p *plan) held(wave int) string {
	text := fmt.Sprintf("rollout %s holds version %s", p.name, p.spec.To)
	switch {
	case p.back():
		return fmt.Sprintf("rollout %s took version %s back", p.name, p.spec.To)
	case p.status.State == fleet.RolloutStopped:
		return text + ": it was stopped"
	case wave < 0:
		return text
	}
	return fmt.Sprintf("%s: wave %s", text, p.spec.Waves[wave].Name)
}

// maxFailuresTold bounds the names of runtimes that failed.
const maxFailuresTold, maxReasonBytes = 10, 300

// count writes down what the runtimes come to.
func (p *plan) count(runtimes []Runtime) {
	s := &p.status
	failedBefore := s.Failed
	s.Total, s.Updated, s.Failed, s.Deferred, s.Reverted = 0, 0, 0, 0, 0
	current := -1
	for i := range p.waves {
		w, ws := &p.waves[i], &s.Waves[i]
		ws.Total, ws.Updated, ws.InFlight = int32(w.total), int32(w.updated), int32(w.inFlight)
		ws.Failed, ws.Deferred = int32(w.failed), int32(w.deferred)
		s.Total, s.Updated = s.Total+ws.Total, s.Updated+ws.Updated
		s.Failed, s.Deferred = s.Failed+ws.Failed, s.Deferred+ws.Deferred
		if ws.StartedAt != nil || current < 0 {
			current = i
		}
	}
	if p.back() {
		s.Failed = max(s.Failed, failedBefore) // why it goes back: those that failed have another version by now
	}
	s.Wave = fmt.Sprintf("%d/%d %s", current+1, len(p.waves), s.Waves[current].Name)
	s.Progress = fmt.Sprintf("%d/%d", s.Updated, s.Total)
	p.tellFailures(runtimes)
	p.estimate(current)
}

// tellFailures names those that failed. After a rollback they are the ones that were its reason: nobody is failed any
// more.
func (p *plan) tellFailures(runtimes []Runtime) {
	var failures []fleet.RuntimeFailure
	for i := range p.members {
		m := &p.members[i]
		if m.touched && runtimes[i].Version == p.spec.From {
			p.status.Reverted++
		}
		if m.standing == failed && len(failures) < maxFailuresTold {
			failures = append(failures, fleet.RuntimeFailure{
				Runtime: runtimes[i].ID, Wave: p.spec.Waves[m.wave].Name, Reason: bundle.Bounded(m.reason, maxReasonBytes),
			})
		}
	}
	if len(failures) > 0 || p.active() {
		p.status.Failures = failures
	}
}

// estimate says when the rollout will be through if the rest goes as what was done so far, soaks on top.
func (p *plan) estimate(current int) {
	p.status.EstimatedEnd = nil
	started := p.status.StartedAt
	if p.status.State != fleet.RolloutProgressing || p.status.Updated == 0 || started == nil {
		return
	}
	var soaks, soaked time.Duration
	for i := range p.status.Waves {
		soak, w := p.spec.Waves[i].Soak.Duration, &p.status.Waves[i]
		switch {
		case i > current && p.waits(i) != "":
			return // nobody knows when people decide
		case w.ProvenAt != nil:
			soaked += soak
		case w.ReadyAt != nil:
			spent := min(p.situation.Now.Sub(w.ReadyAt.Time), soak)
			soaked, soaks = soaked+spent, soaks+soak-spent
		case w.Total > 0:
			soaks += soak
		}
	}
	work := max(p.situation.Now.Sub(started.Time)-soaked, 0)
	left := time.Duration(float64(work) / float64(p.status.Updated) * float64(p.status.Total-p.status.Updated-p.status.Failed-p.status.Deferred))
	end := metav1.NewTime(p.situation.Now.Add(left + soaks).Truncate(time.Minute).Add(time.Minute))
	p.status.EstimatedEnd = &end
}
