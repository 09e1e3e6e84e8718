package controller

import (
	"context"
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

// RemotePlanner is a shard's connection to the planner of the fleet's rollouts. A nil RemotePlanner means that this
// process plans rollouts itself.
type RemotePlanner struct {
	// Announced returns the planner's last announcement. known is false if the announcement may be outdated.
	Announced func() (announced shard.Announcement, known bool)
	// SendReportTimes sends the report times of the shard's runtimes to the planner.
	SendReportTimes ReportTimesWriter
	// Git is the connection to the repository that the planner follows, or nil if no repository is configured.
	Git *RemoteGit

	fleet  *fleetstate.Fleet
	caches *caches

	mu sync.Mutex // guards the fields below
	// unplanned is the time since which the control plane has objects that the planner has not announced, or zero.
	unplanned time.Time
	// caught is the announced commit that this process's caches contain completely.
	caught caughtCommit
}

// own returns the newest versions of the cached Kymas that belong to the share.
func (p *RemotePlanner) own(share shard.Share, kymas []v1beta2.Kyma) []v1beta2.Kyma {
	if p == nil {
		return kymas
	}
	own := make([]v1beta2.Kyma, 0, len(kymas))
	for i := range kymas {
		if share.Contains(kymas[i].Labels, plan.Claimed(&kymas[i])) {
			own = append(own, *p.newest(&kymas[i]))
		}
	}
	return own
}

// keepWritten stores a Kyma with its written status until the cache contains it, because the planner's next writes may
// reach the cache first.
func (p *RemotePlanner) keepWritten(before v1beta2.KymaStatus, kyma *v1beta2.Kyma) {
	if p == nil || maps.EqualFunc(givenIn(before), givenIn(kyma.Status), sameGiven) {
		return
	}
	p.fleet.EditOf(kyma, func(r *fleetstate.Runtime) { r.Written = kyma })
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
func (p *RemotePlanner) newest(cached *v1beta2.Kyma) *v1beta2.Kyma {
	key := client.ObjectKeyFromObject(cached)
	written := p.fleet.Get(key).Written
	if written == nil {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion,
		written.ResourceVersion); err == nil && order < 0 && cached.UID == written.UID {
		return written
	}
	p.fleet.Edit(key, func(r *fleetstate.Runtime) { r.Written = nil })
	return cached
}

func (p *RemotePlanner) planned(state string) bool {
	if p == nil {
		return true
	}
	announced, known := p.Announced()
	p.mu.Lock()
	defer p.mu.Unlock()
	planned := known && announced.State != "" && announced.State == state && p.hasCaught(announced)
	if planned {
		p.unplanned = time.Time{}
	} else if p.unplanned.IsZero() {
		p.unplanned = time.Now()
	}
	return planned
}

// unannouncedFor returns the time since the planner last announced the current state.
func (p *RemotePlanner) unannouncedFor() time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unplanned.IsZero() {
		return 0
	}
	return time.Since(p.unplanned)
}

func (p *RemotePlanner) active() bool {
	announced, known := p.Announced()
	return known && announced.Active
}

// ReportTimesWriter sends the report times of a shard to the planner. data is the encoded shard.ReportTimes.
type ReportTimesWriter func(ctx context.Context, data []byte) error
