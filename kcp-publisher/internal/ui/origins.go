package ui

import (
	"context"
	"sync"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// maxOrigins bounds the bundles whose origins are kept; they are as their digest, so they never grow old.
	maxOrigins = 500
	// originsWithin is how long the registry may take.
	originsWithin = 10 * time.Second
)

// origins keeps what was read of bundles: pages that change with the fleet ask again and again.
type origins struct {
	// mu guards known, by runtime and digest.
	mu    sync.Mutex
	known map[[2]string][]bundle.Origin
}

// of returns where the modules of the bundle come from that was published to a runtime.
func (o *origins) of(ctx context.Context, id string, kyma *v1beta2.Kyma, read func(context.Context, *v1beta2.Kyma) ([]bundle.Origin, error)) ([]bundle.Origin, error) {
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
