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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// RemoteOptions configures a RemotePlanner.
type RemoteOptions struct {
	// Announced returns the planner's last announcement. known is false if the announcement may be outdated.
	Announced func() (announced shard.Announcement, known bool)
	// SendReportTimes sends the report times of the shard's runtimes to the planner.
	SendReportTimes ReportTimesWriter
	// Git is the connection to the repository that the planner follows, or nil if no repository is configured.
	Git *RemoteGit
}

// RemotePlanner is a shard's connection to the planner of the fleet's rollouts. A nil RemotePlanner means that this
// process plans rollouts itself.
type RemotePlanner struct {
	RemoteOptions
	fleet  *fleetstate.Fleet
	caches *caches

	mu sync.Mutex // guards the fields below
	// unplannedSince is the time at which this shard first read control plane objects that the planner has not
	// announced yet. It is zero if the planner has announced all of them.
	unplannedSince time.Time
	// cached is the last announced commit with all its objects in this process's caches.
	cached cachedCommit
}

// ownKymas returns the newest versions of the cached Kymas that belong to the share.
func (p *RemotePlanner) ownKymas(share shard.Share, kymas []v1beta2.Kyma) []v1beta2.Kyma {
	if p == nil {
		return kymas
	}
	own := make([]v1beta2.Kyma, 0, len(kymas))
	for i := range kymas {
		if share.Contains(kymas[i].Labels, plan.ClaimedRuntimeID(&kymas[i])) {
			own = append(own, *p.newestKyma(&kymas[i]))
		}
	}
	return own
}

// keepWritten stores a Kyma if this process has added rollout-selected versions to its status. Until the cache contains
// this status, callers use the stored Kyma. Otherwise, they could combine an outdated Kyma with Rollouts that the
// planner has changed because of the new status.
func (p *RemotePlanner) keepWritten(before v1beta2.KymaStatus, kyma *v1beta2.Kyma) {
	if p == nil || maps.EqualFunc(selectedVersions(before), selectedVersions(kyma.Status), isSameSelection) {
		return
	}
	p.fleet.EditCurrent(kyma, func(r *fleetstate.Runtime) { r.WrittenKyma = kyma })
}

func selectedVersions(status v1beta2.KymaStatus) map[string]v1beta2.GivenVersion {
	if status.Runtime == nil || status.Runtime.Published == nil {
		return nil
	}
	return status.Runtime.Published.Given
}

func isSameSelection(a, b v1beta2.GivenVersion) bool {
	return a.Rollout == b.Rollout && a.Time.Equal(&b.Time)
}

// newestKyma returns the cached Kyma, or the newer version that this process wrote.
func (p *RemotePlanner) newestKyma(cached *v1beta2.Kyma) *v1beta2.Kyma {
	key := client.ObjectKeyFromObject(cached)
	written := p.fleet.Get(key).WrittenKyma
	if written == nil {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion,
		written.ResourceVersion); err == nil && order < 0 && cached.UID == written.UID {
		return written
	}
	p.fleet.Edit(key, func(r *fleetstate.Runtime) { r.WrittenKyma = nil })
	return cached
}

func (p *RemotePlanner) isPlanned(state string) bool {
	if p == nil {
		return true
	}
	announced, known := p.Announced()
	p.mu.Lock()
	defer p.mu.Unlock()
	planned := known && announced.State != "" && announced.State == state && p.hasCached(announced)
	if planned {
		p.unplannedSince = time.Time{}
	} else if p.unplannedSince.IsZero() {
		p.unplannedSince = time.Now()
	}
	return planned
}

// unannouncedFor returns how long the current control plane objects have been waiting for the planner's announcement,
// or 0 if they were announced.
func (p *RemotePlanner) unannouncedFor() time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unplannedSince.IsZero() {
		return 0
	}
	return time.Since(p.unplannedSince)
}

// heldFor returns how long a commit has stopped publishing, according to the planner. It returns 0 if publishing
// continues.
func (p *RemotePlanner) heldFor() time.Duration {
	if p == nil {
		return 0
	}
	if announced, known := p.Announced(); !known || announced.Held == "" {
		return 0
	}
	return p.unannouncedFor()
}

func (p *RemotePlanner) isActive() bool {
	announced, known := p.Announced()
	return known && announced.Active
}

// refusedRollouts returns the Rollouts that the planner could not create.
func (p *RemotePlanner) refusedRollouts() []rollout.RefusedRollout {
	announced, _ := p.Announced()
	return announced.Refused
}

// ReportTimesWriter sends a shard's report times to the planner. data is the encoded shard.ReportTimes.
type ReportTimesWriter func(ctx context.Context, data []byte) error
