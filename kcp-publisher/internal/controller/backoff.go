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

// registryBackoff delays reconciliations after failed registry requests. While the registry is down, all runtimes share
// one backoff. Otherwise, each failing runtime has its own backoff.
type registryBackoff struct {
	// ping returns an error if the registry is down. It is nil for a store that is always available.
	ping func(context.Context) error

	fleet *fleetstate.Fleet

	mu     sync.Mutex          // guards outage
	outage *fleetstate.Backoff // shared by all runtimes; nil while the registry responds
}

// maxLogged is the maximum number of failing runtimes that are logged.
const maxLogged = 10

// wait returns the remaining delay for a runtime, or 0.
func (b *registryBackoff) wait(kyma types.NamespacedName, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := max(b.outage.Left(now), b.fleet.Wait(kyma, now)); wait > 0 {
		return jitter.JitteredIntervalDuration(wait)
	}
	return 0
}

// failed records a failed registry request and returns the delay. isOutage is true if the registry is down. The delay
// then applies to all runtimes.
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
		registryFailing.Add(1) // the shards of a process share the gauge
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

// recordSuccess records that a pass had no registry failure. began is the start of the pass. asked is true if the pass
// sent a request to the registry. whole is true if the pass accessed the repositories of both the bundle and the
// reports.
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

// A request that was sent before the outage does not end the outage.
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
