package component

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// verdict is what Check said of a version. It has a lock of its own, for checking one version reads others.
type verdict struct {
	mu    sync.Mutex
	of    digest.Digest
	round int
	at    time.Time
	err   error
}

// ErrRefused is what Check's errors wrap when they say something about the version, and not about what kept it from
// being checked.
var ErrRefused = reason.Errorf(reason.ComponentUnsigned, "refused")

// Accepted returns nil when a version that was in use before may still be: it was accepted with the keys of today in
// this life, or it can be read and is accepted now. The error wraps ErrRefused or ErrMissing, or says that it could not
// be found out.
func (r *Reader) Accepted(ctx context.Context, name, version string) error {
	r.mu.Lock()
	round, ok := r.accepted[name+":"+version]
	now := r.round
	r.mu.Unlock()
	if ok && round == now {
		return nil
	}
	_, err := r.Component(ctx, name, version)
	return err
}

// noteVerdict remembers in which round a version was accepted, from wherever it was read.
func (r *Reader) noteVerdict(c Component, round int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := c.Descriptor.Name + ":" + c.Descriptor.Version
	switch {
	case err != nil:
		delete(r.accepted, key)
	case len(r.accepted) >= maxRemembered:
		clear(r.accepted)
		fallthrough
	default:
		r.accepted[key] = round
	}
}

// Recheck makes every version be checked anew when it is asked for next: the keys that it was checked with are others
// now.
func (r *Reader) Recheck() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round++
}

// Round counts Recheck: what was found in an earlier round may not be used any more.
func (r *Reader) Round() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.round
}

// judge asks Check once for every version, and again after a while for one that was refused.
func (r *Reader) judge(ctx context.Context, key string, of digest.Digest, c Component) error {
	if r.Check == nil {
		return nil
	}
	r.mu.Lock()
	v, round := r.verdicts[key], r.round
	if v == nil {
		if len(r.verdicts) >= maxRemembered {
			clear(r.verdicts)
		}
		v = &verdict{}
		r.verdicts[key] = v
	}
	r.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	life := verdictLife
	if v.err != nil {
		life = r.RetryAfter
	}
	same := v.of == of && v.round == round && !v.at.IsZero()
	if same && r.now().Sub(v.at) < life {
		return v.err
	}
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := r.Check(bounded, r, c)
	if err == nil {
		err = r.freeze(bounded, c)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if same && v.err == nil && err != nil && !errors.Is(err, ErrRefused) {
		err = nil // it was right for these keys; that it cannot be looked at again now says nothing against it
	}
	v.of, v.round, v.at, v.err = of, round, r.now(), err
	r.noteVerdict(c, round, err)
	return err
}

// freeze keeps a version that was accepted, and all that it refers to, as they are for good.
func (r *Reader) freeze(ctx context.Context, c Component) error {
	all, err := r.Closure(ctx, c)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.given {
			continue
		}
		e := r.entryOf(one.Descriptor.Name, one.Descriptor.Version)
		e.mu.Lock()
		e.frozen = e.frozen || e.component.Manifest.Digest == one.Manifest.Digest
		e.mu.Unlock()
		if err := r.pin(one); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) pin(c Component) error {
	if r.Pins == nil {
		return nil
	}
	if err := r.Pins.Pin(c.Descriptor.Name+":"+c.Descriptor.Version, c.Manifest.Digest); err != nil {
		return fmt.Errorf("remember the digest of component %s:%s: %w", c.Descriptor.Name, c.Descriptor.Version, err)
	}
	return nil
}
