package control

import (
	"sync"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/shard"
)

// Shard is a part of the fleet, one of Count. A nil Shard is the whole fleet.
type Shard struct {
	Number, Count int
	// Announced returns what the planner has announced; known is false while that may be out of date.
	Announced func() (announced shard.Announcement, known bool)
	// Tell makes the planner know when runtimes were heard.
	Tell HearingsWriter

	mu sync.Mutex // guards what follows
	// unplanned is since when the state that Kymas would be resolved by is not known to be planned, zero while it is.
	unplanned time.Time
}

// owns reports whether a Kyma belongs to the shard. Its label only says which shard's cache has it: somebody may have edited that.
func (s *Shard) owns(kyma *v1beta2.Kyma) bool {
	return s == nil || shard.Of(plan.Claimed(kyma), s.Count) == s.Number
}

// first reports whether the shard is the one that tells what concerns the whole fleet.
func (s *Shard) first() bool { return s == nil || s.Number == 0 }

// own returns those of the Kymas that belong to the shard.
func (s *Shard) own(kymas []v1beta2.Kyma) []v1beta2.Kyma {
	if s == nil {
		return kymas
	}
	own := make([]v1beta2.Kyma, 0, len(kymas))
	for i := range kymas {
		if s.owns(&kymas[i]) {
			own = append(own, kymas[i])
		}
	}
	return own
}

// planned reports whether a state is the one that the planner has announced.
func (s *Shard) planned(state string) bool {
	if s == nil {
		return true
	}
	announced, known := s.Announced()
	planned := known && announced.State == state
	s.mu.Lock()
	defer s.mu.Unlock()
	if planned {
		s.unplanned = time.Time{}
	} else if s.unplanned.IsZero() {
		s.unplanned = time.Now()
	}
	return planned
}

// unannouncedFor returns for how long nothing could be resolved because its state is not planned.
func (s *Shard) unannouncedFor() time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unplanned.IsZero() {
		return 0
	}
	return time.Since(s.unplanned)
}

// active reports whether a rollout is under way.
func (s *Shard) active() bool {
	announced, known := s.Announced()
	return known && announced.Active
}
