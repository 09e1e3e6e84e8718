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

// verdict is the cached result of Options.Check for a version. It has its own lock, because checking one version reads
// other versions.
type verdict struct {
	mu        sync.Mutex
	manifest  digest.Digest
	round     int
	checkedAt time.Time
	err       error
	// memoryBytes is the size of the verdict when it was last stored in the cache.
	memoryBytes int
}

// ErrRefused means that Options.Check refused the version.
var ErrRefused = reason.Errorf(reason.ComponentUnsigned, "refused")

// CheckAccepted checks whether an installed version can stay installed. If it must not stay installed, the error wraps
// ErrRefused or ErrMissing. Any other error means that the result is unknown.
func (r *Reader) CheckAccepted(ctx context.Context, name, version string) error {
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

func (r *Reader) recordVerdict(c Component, round int, err error) {
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

// RequestRecheck makes the Reader check every version again, for example after the keys changed.
func (r *Reader) RequestRecheck() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round++
}

// RecheckCount returns the number of calls to RequestRecheck.
func (r *Reader) RecheckCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.round
}

// checkCached calls Options.Check and caches the result for verdictLife, or for Options.RetryAfter if the version is
// refused.
func (r *Reader) checkCached(ctx context.Context, key string, of digest.Digest, c Component) error {
	if r.Check == nil {
		return nil
	}
	v, round := findOrAdd(r, r.verdicts, key), r.RecheckCount()
	v.mu.Lock()
	defer v.mu.Unlock()
	life := verdictLife
	if v.err != nil {
		life = r.RetryAfter
	}
	same := v.manifest == of && v.round == round && !v.checkedAt.IsZero()
	if same && r.now().Sub(v.checkedAt) < life {
		return v.err
	}
	bounded, cancel := context.WithTimeout(withClosures(ctx), readTimeout)
	defer cancel()
	err := r.Check(bounded, r, c)
	if err == nil {
		err = r.pinAll(bounded, c)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if same && v.err == nil && err != nil && !errors.Is(err, ErrRefused) {
		err = nil // the check could not run, so keep the version accepted
	}
	v.manifest, v.round, v.checkedAt, v.err, v.memoryBytes = of, round, r.now(), err, errorBytes(err)
	r.verdicts.Put(key, v)
	r.recordVerdict(c, round, err)
	return err
}

// pinAll pins the manifests of an accepted version and all versions that it references.
func (r *Reader) pinAll(ctx context.Context, c Component) error {
	all, err := r.Closure(ctx, c)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.inline {
			continue
		}
		r.recordManifest(one)
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
		return fmt.Errorf("pin the digest of component %s:%s: %w", c.Descriptor.Name, c.Descriptor.Version, err)
	}
	return nil
}
