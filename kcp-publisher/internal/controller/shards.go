package controller

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// Shard is a part of the fleet, one of Count. A nil Shard is the whole fleet.
type Shard struct {
	Number, Count int
	// Announced returns the planner's announcement. known is false if it may be outdated.
	Announced func() (announced shard.Announcement, known bool)
	// SendReportTimes sends the times of reports to the planner.
	SendReportTimes ReportTimesWriter

	fleet *fleetstate.Fleet

	mu sync.Mutex // guards unplanned
	// unplanned is the time since which the planner has not announced the current state, or zero.
	unplanned time.Time
}

// owns ignores the Kyma's shard label, which users can edit.
func (s *Shard) owns(kyma *v1beta2.Kyma) bool {
	return s == nil || shard.Of(plan.Claimed(kyma), s.Count) == s.Number
}

// first reports whether this publisher emits the Events about objects of the whole fleet, such as the catalog.
func (s *Shard) first() bool { return s == nil || s.Number == 0 }

func (s *Shard) own(kymas []v1beta2.Kyma) []v1beta2.Kyma {
	if s == nil {
		return kymas
	}
	own := make([]v1beta2.Kyma, 0, len(kymas))
	for i := range kymas {
		if s.owns(&kymas[i]) {
			own = append(own, *s.newest(&kymas[i]))
		}
	}
	return own
}

// keepWritten stores a Kyma with its written status until the cache contains it, because the planner's next writes may
// reach the cache first.
func (s *Shard) keepWritten(before v1beta2.KymaStatus, kyma *v1beta2.Kyma) {
	if s == nil || maps.EqualFunc(givenIn(before), givenIn(kyma.Status), sameGiven) {
		return
	}
	s.fleet.EditOf(kyma, func(r *fleetstate.Runtime) { r.Written = kyma })
}

func givenIn(status v1beta2.KymaStatus) map[string]v1beta2.GivenVersion {
	if status.Runtime == nil || status.Runtime.Published == nil {
		return nil
	}
	return status.Runtime.Published.Given
}

func sameGiven(a, b v1beta2.GivenVersion) bool {
	return a.Rollout == b.Rollout && a.Time.Equal(&b.Time)
}

// newest returns the cached Kyma, or the newer version that this process wrote.
func (s *Shard) newest(cached *v1beta2.Kyma) *v1beta2.Kyma {
	key := client.ObjectKeyFromObject(cached)
	written := s.fleet.Get(key).Written
	if written == nil {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion,
		written.ResourceVersion); err == nil && order < 0 && cached.UID == written.UID {
		return written
	}
	s.fleet.Edit(key, func(r *fleetstate.Runtime) { r.Written = nil })
	return cached
}

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

// unannouncedFor returns the time since the planner last announced the current state.
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

func (s *Shard) active() bool {
	announced, known := s.Announced()
	return known && announced.Active
}
