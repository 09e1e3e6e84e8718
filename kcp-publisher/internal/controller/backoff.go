package controller

import (
	"context"
	"sync"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
)

// registryBackoff delays reconciles after failed registry requests. If the whole registry is down, all runtimes share
// one backoff. If only the requests for some runtimes fail, each of these runtimes has its own backoff.
type registryBackoff struct {
	// checkRegistry returns an error if the whole registry is down. If it is nil, the registry always counts as up.
	checkRegistry func(context.Context) error

	fleet *fleetstate.Fleet

	mu sync.Mutex // guards outage
	// outage is the backoff for all runtimes. It is nil while the registry responds.
	outage *fleetstate.Backoff
}

// maxLogged limits the number of runtimes whose failures the publisher logs while the registry is available.
const maxLogged = 10

// remainingDelay returns the remaining delay before the publisher tries the registry again for this Kyma, or 0.
func (b *registryBackoff) remainingDelay(kyma types.NamespacedName, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := max(b.outage.Remaining(now), b.fleet.RemainingDelay(kyma, now)); wait > 0 {
		return jitter.JitteredIntervalDuration(wait)
	}
	return 0
}

// recordFailure starts or extends a backoff after a failed registry request, and returns the delay. isOutage is true
// if the whole registry is down. In this case, the delay applies to all runtimes.
func (b *registryBackoff) recordFailure(
	ctx context.Context, kyma types.NamespacedName, now time.Time, err error,
) (wait time.Duration, isOutage bool) {
	var down error
	if b.checkRegistry != nil {
		down = b.checkRegistry(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if down != nil {
		if b.outage == nil {
			b.outage = fleetstate.NewBackoff(now)
			ctrl.LoggerFrom(ctx).Error(err, "registry unavailable, publishing is on hold")
			registryUp.Set(0)
		}
		return b.outage.RecordFailure(now), true
	}
	b.endOutage(ctx, now)
	begins := false
	b.fleet.Edit(kyma, func(r *fleetstate.Runtime) {
		if begins = r.Backoff == nil; begins {
			r.Backoff = fleetstate.NewBackoff(now)
		}
		wait = r.Backoff.RecordFailure(now)
	})
	if begins {
		switch log, failing := ctrl.LoggerFrom(ctx), b.fleet.CountFailing(); {
		case failing < maxLogged:
			log.Error(err, "requests for this runtime fail while the registry is available, backing off", "kyma", kyma)
		case failing == maxLogged:
			log.Error(err, "requests for many runtimes fail while the registry is available, not logging more",
				"runtimes", maxLogged)
		}
	}
	return wait, false
}

// recordSuccess ends backoffs after a reconcile without failed registry requests. startedAt is when the reconcile
// started. usedRegistry is true if the reconcile sent a request to the registry. usedBoth is true if the reconcile used
// both the runtime's bundle repository and its report repository.
func (b *registryBackoff) recordSuccess(
	ctx context.Context, kyma types.NamespacedName, startedAt time.Time, usedRegistry, usedBoth bool,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if usedRegistry {
		b.endOutage(ctx, startedAt)
	}
	if usedBoth && b.fleet.Get(kyma).Backoff != nil {
		logged := b.fleet.CountFailing() < maxLogged
		b.fleet.Edit(kyma, func(r *fleetstate.Runtime) { r.Backoff = nil })
		if failing := b.fleet.CountFailing(); logged || failing == 0 {
			ctrl.LoggerFrom(ctx).Info("registry responds for this runtime again", "kyma", kyma, "others", failing)
		}
	}
}

// endOutage ends the registry outage. requestedAt is the time at which a successful request was sent. A request that
// was sent before the outage began does not end the outage.
func (b *registryBackoff) endOutage(ctx context.Context, requestedAt time.Time) {
	if b.outage != nil && requestedAt.Before(b.outage.Since) {
		return
	}
	registryUp.Set(1)
	if b.outage != nil {
		b.outage = nil
		ctrl.LoggerFrom(ctx).Info("registry available again")
	}
}
