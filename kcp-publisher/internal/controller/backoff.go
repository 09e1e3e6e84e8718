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
	// ping returns an error if the whole registry is down. It is nil for a store that is always available.
	ping func(context.Context) error

	fleet *fleetstate.Fleet

	mu sync.Mutex // guards outage
	// outage is the backoff of all runtimes. It is nil while the registry responds.
	outage *fleetstate.Backoff
}

// At most maxLogged failing runtimes are logged.
const maxLogged = 10

// wait returns the remaining delay before the publisher tries the registry again for this Kyma, or 0.
func (b *registryBackoff) wait(kyma types.NamespacedName, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := max(b.outage.Left(now), b.fleet.Wait(kyma, now)); wait > 0 {
		return jitter.JitteredIntervalDuration(wait)
	}
	return 0
}

// failed starts or extends a backoff after a failed registry request, and returns the delay. isOutage is true if the
// whole registry is down, so that the delay applies to all runtimes.
func (b *registryBackoff) failed(
	ctx context.Context, kyma types.NamespacedName, now time.Time, err error,
) (wait time.Duration, isOutage bool) {
	var down error
	if b.ping != nil {
		down = b.ping(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if down != nil {
		if b.outage == nil {
			b.outage = fleetstate.NewBackoff(now)
			ctrl.LoggerFrom(ctx).Error(err, "registry unavailable, publishing is on hold")
			registryUp.Set(0)
		}
		return b.outage.Fail(now), true
	}
	b.end(ctx, now)
	begins := false
	b.fleet.Edit(kyma, func(r *fleetstate.Runtime) {
		if begins = r.Backoff == nil; begins {
			r.Backoff = fleetstate.NewBackoff(now)
		}
		wait = r.Backoff.Fail(now)
	})
	if begins {
		registryFailing.Add(1) // the shards in a process share this metric
		switch log, failing := ctrl.LoggerFrom(ctx), b.fleet.Failing(); {
		case failing < maxLogged:
			log.Error(err, "requests for this runtime fail while the registry is available, backing off", "kyma", kyma)
		case failing == maxLogged:
			log.Error(err, "requests for many runtimes fail while the registry is available, logging no more of them",
				"runtimes", maxLogged)
		}
	}
	return wait, false
}

// recordSuccess ends backoffs after a reconcile without failed registry requests. began is the start of the reconcile.
// asked is true if it sent a request to the registry. whole is true if it used both of the runtime's repositories, the
// one for bundles and the one for reports.
func (b *registryBackoff) recordSuccess(
	ctx context.Context, kyma types.NamespacedName, began time.Time, asked, whole bool,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if asked {
		b.end(ctx, began)
	}
	if whole && b.fleet.Get(kyma).Backoff != nil {
		logged := b.fleet.Failing() < maxLogged
		b.fleet.Edit(kyma, func(r *fleetstate.Runtime) { r.Backoff = nil })
		registryFailing.Add(-1)
		if failing := b.fleet.Failing(); logged || failing == 0 {
			ctrl.LoggerFrom(ctx).Info("registry responds for this runtime again", "kyma", kyma, "others", failing)
		}
	}
}

func (b *registryBackoff) retire() {
	registryFailing.Add(-float64(b.fleet.Failing()))
	b.fleet.Each(func(_ fleetstate.Key, r *fleetstate.Runtime) { r.Backoff = nil })
}

// end ends the outage of the registry. asked is the time of a successful request. A request that was sent before the
// outage does not end it.
func (b *registryBackoff) end(ctx context.Context, asked time.Time) {
	if b.outage != nil && asked.Before(b.outage.Since) {
		return
	}
	registryUp.Set(1)
	if b.outage != nil {
		b.outage = nil
		ctrl.LoggerFrom(ctx).Info("registry available again")
	}
}
