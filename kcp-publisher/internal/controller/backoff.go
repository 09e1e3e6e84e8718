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

// registryBackoff holds back runtimes that the registry does not answer for: all of them, with one backoff and one line
// of log, while the registry itself does not answer, and otherwise each by itself. One bad repository is no outage.
type registryBackoff struct {
	// ping asks the registry for nothing, nil for a store that is always there. The error says that the registry is down.
	ping func(context.Context) error

	fleet *fleetstate.Fleet

	mu  sync.Mutex          // guards all
	all *fleetstate.Backoff // nil while the registry answers
}

// maxLogged is the number of runtimes with a backoff of their own that are logged one by one. More are a problem of the
// registry, and one line.
const maxLogged = 10

// wait returns how long not to ask the registry for a runtime, 0 when it may be asked.
func (b *registryBackoff) wait(kyma types.NamespacedName, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := max(b.all.Left(now), b.fleet.Wait(kyma, now)); wait > 0 {
		return jitter.JitteredIntervalDuration(wait)
	}
	return 0
}

// failed notes that the registry did not answer for a runtime, and returns how long to wait. All is true when the
// registry itself does not answer: then all runtimes wait, and failures during one wait count once.
func (b *registryBackoff) failed(ctx context.Context, kyma types.NamespacedName, now time.Time, err error) (wait time.Duration, all bool) {
	var down error
	if b.ping != nil {
		down = b.ping(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if down != nil {
		if b.all == nil {
			b.all = fleetstate.NewBackoff(now)
			ctrl.LoggerFrom(ctx).Error(err, "registry unavailable, publishing waits")
			registryUp.Set(0)
		}
		return b.all.Fail(now), true
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
		registryFailing.Add(1) // a process may have several shards
		switch log, failing := ctrl.LoggerFrom(ctx), b.fleet.Failing(); {
		case failing < maxLogged:
			log.Error(err, "registry answers, but not for this runtime, which waits", "kyma", kyma)
		case failing == maxLogged:
			log.Error(err, "registry answers, but not for many runtimes, which wait; further ones are not logged", "runtimes", maxLogged)
		}
	}
	return wait, false
}

// answered notes that a pass for a runtime, which began at a time, had no trouble. asked is whether it needed the
// registry, whole whether it asked for all of what is the runtime's there: its bundle alone does not prove that its
// reports can be read.
func (b *registryBackoff) answered(ctx context.Context, kyma types.NamespacedName, began time.Time, asked, whole bool) {
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
			ctrl.LoggerFrom(ctx).Info("registry answers for this runtime again", "kyma", kyma, "others", failing)
		}
	}
}

// retire drops all backoffs: another process asks the registry from now on.
func (b *registryBackoff) retire() {
	registryFailing.Add(-float64(b.fleet.Failing()))
	b.fleet.Each(func(_ fleetstate.Key, r *fleetstate.Runtime) { r.Backoff = nil })
}

// end notes that the registry answered what was asked at a time. What was asked before the registry was down says
// nothing.
func (b *registryBackoff) end(ctx context.Context, asked time.Time) {
	if b.all != nil && asked.Before(b.all.Since) {
		return
	}
	registryUp.Set(1)
	if b.all != nil {
		b.all = nil
		ctrl.LoggerFrom(ctx).Info("registry available again")
	}
}
