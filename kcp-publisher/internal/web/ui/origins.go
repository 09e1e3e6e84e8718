package ui

import (
	"context"
	"sync"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const (
	// maxOrigins is the maximum number of bundles in the cache. The cache is cleared when it is full. Entries do not
	// expire, because the content of a digest never changes.
	maxOrigins    = 500
	originsWithin = 10 * time.Second
)

// originCache caches the origins and bundles of runtimes, because a live page requests them repeatedly.
type originCache struct {
	// mu guards known and chains. Their keys are the runtime and the digest.
	mu     sync.Mutex
	known  map[[2]string][]bundle.Origin
	chains map[[2]string]fleet.Chain
}

// cachedOrigins returns the origins of the modules in a runtime's published bundle.
func (o *originCache) cachedOrigins(
	ctx context.Context, id string, kyma *v1beta2.Kyma,
	read func(context.Context, *v1beta2.Kyma) ([]bundle.Origin, error),
) ([]bundle.Origin, error) {
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return nil, nil
	}
	key := [2]string{id, kyma.Status.Runtime.Published.Digest}
	o.mu.Lock()
	found, known := o.known[key]
	o.mu.Unlock()
	if known {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, originsWithin)
	defer cancel()
	found, err := read(ctx, kyma)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= maxOrigins {
		o.known = map[[2]string][]bundle.Origin{}
	}
	o.known[key] = found
	return found, nil
}

// readChain returns the runtime's last bundles, from the cache if possible. It does not cache a failed read.
func (o *originCache) readChain(
	ctx context.Context, id string, kyma *v1beta2.Kyma, read func(context.Context, *v1beta2.Kyma) (fleet.Chain, error),
) fleet.Chain {
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return fleet.Chain{Asked: true}
	}
	key := [2]string{id, kyma.Status.Runtime.Published.Digest}
	o.mu.Lock()
	found, known := o.chains[key]
	o.mu.Unlock()
	if known {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, originsWithin)
	defer cancel()
	found, err := read(ctx, kyma)
	switch {
	case err != nil:
		return fleet.Chain{Asked: true, EndReason: err.Error()}
	case found.EndReason != "":
		return found
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.chains == nil || len(o.chains) >= maxOrigins {
		o.chains = map[[2]string]fleet.Chain{}
	}
	o.chains[key] = found
	return found
}
