package controller

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fluxcd/pkg/runtime/jitter"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// registryBackoff holds back runtimes that the registry does not answer for: all of them, with one backoff and one line of log, while the
// registry itself does not answer, and otherwise each by itself. One bad repository is no outage.
type registryBackoff struct {
	// ping asks the registry for nothing, nil for a store that is always there. The error says that the registry is down.
	ping func(context.Context) error

	mu    sync.Mutex // guards what follows
	all   *hold      // nil while the registry answers
	alone map[types.NamespacedName]*hold
}

// hold is one backoff.
type hold struct {
	// since is when it began, until when it is over.
	since, until time.Time
	backoff      *backoff.ExponentialBackOff
}

const (
	firstWait = time.Second
	maxWait   = time.Minute
	// maxLogged is how many runtimes that fail alone have a line of log each; that many are the registry's trouble, and one line.
	maxLogged = 10
)

func newHold() *hold {
	h := &hold{backoff: backoff.NewExponentialBackOff()}
	h.backoff.InitialInterval, h.backoff.MaxInterval = firstWait, maxWait
	h.backoff.Reset()
	return h
}

// fail begins the next wait, unless one is under way, and returns what is left of it.
func (h *hold) fail(now time.Time) time.Duration {
	if !now.Before(h.until) {
		h.until = now.Add(h.backoff.NextBackOff())
	}
	return jitter.JitteredIntervalDuration(h.until.Sub(now))
}

func (h *hold) left(now time.Time) time.Duration {
	if h == nil {
		return 0
	}
	return h.until.Sub(now)
}

// wait returns how long not to ask the registry for a runtime, 0 when it may be asked.
func (b *registryBackoff) wait(kyma types.NamespacedName, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := max(b.all.left(now), b.alone[kyma].left(now)); wait > 0 {
		return jitter.JitteredIntervalDuration(wait)
	}
	return 0
}

// failed notes that the registry did not answer for a runtime, and returns how long to wait. All is true when the registry itself does not
// answer: then all runtimes wait, and failures during one wait count once.
func (b *registryBackoff) failed(ctx context.Context, kyma types.NamespacedName, now time.Time, err error) (wait time.Duration, all bool) {
	var down error
	if b.ping != nil {
		down = b.ping(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if down != nil {
		if b.all == nil {
			b.all = newHold()
			b.all.since = now
			ctrl.LoggerFrom(ctx).Error(err, "registry unavailable, publishing waits")
			registryUp.Set(0)
		}
		return b.all.fail(now), true
	}
	b.end(ctx, now)
	if b.alone == nil {
		b.alone = map[types.NamespacedName]*hold{}
	}
	h, known := b.alone[kyma]
	if !known {
		h = newHold()
		b.alone[kyma] = h
		registryFailing.Add(1) // a process may have several shards
		switch log := ctrl.LoggerFrom(ctx); {
		case len(b.alone) < maxLogged:
			log.Error(err, "registry answers, but not for this runtime, which waits", "kyma", kyma)
		case len(b.alone) == maxLogged:
			log.Error(err, "registry answers, but not for many runtimes, which wait; further ones are not logged", "runtimes", maxLogged)
		}
	}
	return h.fail(now), false
}

// answered notes that a pass for a runtime, which began at a time, had no trouble. asked is whether it needed the registry, whole whether it asked for
// all of what is the runtime's there: its bundle alone does not prove that its reports can be read.
func (b *registryBackoff) answered(ctx context.Context, kyma types.NamespacedName, began time.Time, asked, whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if asked {
		b.end(ctx, began)
	}
	if _, known := b.alone[kyma]; known && whole {
		logged := len(b.alone) < maxLogged
		b.drop(kyma)
		if logged || len(b.alone) == 0 {
			ctrl.LoggerFrom(ctx).Info("registry answers for this runtime again", "kyma", kyma, "others", len(b.alone))
		}
	}
}

// forget drops a runtime that is gone.
func (b *registryBackoff) forget(kyma types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(kyma)
}

func (b *registryBackoff) drop(kyma types.NamespacedName) {
	if _, known := b.alone[kyma]; known {
		delete(b.alone, kyma)
		registryFailing.Add(-1)
	}
}

// retire drops all: another process asks the registry from now on.
func (b *registryBackoff) retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	registryFailing.Add(-float64(len(b.alone)))
	b.alone = nil
}

// end notes that the registry answered what was asked at a time. What was asked before the registry was down says nothing.
func (b *registryBackoff) end(ctx context.Context, asked time.Time) {
	if b.all != nil && asked.Before(b.all.since) {
		return
	}
	registryUp.Set(1)
	if b.all != nil {
		b.all = nil
		ctrl.LoggerFrom(ctx).Info("registry available again")
	}
}
