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

// registryBackoff delays reconciliations of runtimes whose registry requests fail. While the registry is down, all
// runtimes share one backoff and one log line. Otherwise each failing runtime has its own backoff, because one failing
// repository is not an outage.
type registryBackoff struct {
	// ping checks the registry with a harmless request. It is nil for a store that is always available. An error means
	// that the registry is down.
	ping func(context.Context) error

	fleet *fleetstate.Fleet

	mu     sync.Mutex          // guards outage
	outage *fleetstate.Backoff // shared by all runtimes, nil while the registry responds
}

// maxLogged is the number of failing runtimes that are logged. Further runtimes are not logged, because the likely
// cause is the registry.
const maxLogged = 10

// wait returns the remaining time until the registry can be used for a runtime again, or 0.
func (b *registryBackoff) wait(kyma types.NamespacedName, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := max(b.outage.Left(now), b.fleet.Wait(kyma, now)); wait > 0 {
		return jitter.JitteredIntervalDuration(wait)
	}
	return 0
}

// failed records a failed registry request for a runtime, and returns the delay until the next request. isOutage is
// true if the registry itself is unavailable. The delay then applies to all runtimes, and further failures during the
// delay do not extend it.
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
		registryFailing.Add(1) // adds to the gauge, because the shards of a process share it
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

// recordSuccess records that a pass for a runtime had no registry failure. began is the start time of the pass. asked
// is true if the pass sent a request to the registry, which ends an outage. whole is true if the pass accessed the
// repositories of the bundle and of the reports, which ends the backoff of the runtime.
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

// retire drops the backoffs of all runtimes, because another process publishes to them from now on.
func (b *registryBackoff) retire() {
	registryFailing.Add(-float64(b.fleet.Failing()))
	b.fleet.Each(func(_ fleetstate.Key, r *fleetstate.Runtime) { r.Backoff = nil })
}

// end ends an outage after a response of the registry. asked is the time when the request was sent. A request from
// before the outage does not end it.
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
