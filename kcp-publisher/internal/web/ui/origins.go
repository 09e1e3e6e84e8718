package ui

import (
	"context"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

const (
	// maxOriginsBytes limits the memory of each of the two caches. Entries do not expire, because the content of a digest
	// never changes. A runtime that changes its request creates a new digest.
	maxOriginsBytes = 8 << 20
	originsWithin   = 10 * time.Second
)

// originKey consists of a runtime and the digest of its published bundle.
type originKey [2]string

// originCache caches the origins and bundles of runtimes, because a live page requests them repeatedly.
type originCache struct {
	known  *memo.Memo[originKey, []bundle.Origin]
	chains *memo.Memo[originKey, fleet.Chain]
}

func newOriginCache() originCache {
	return originCache{
		known: memo.New(memo.Limit{Bytes: maxOriginsBytes}, func(_ originKey, found []bundle.Origin) int {
			return memo.MemoryOf(found) + memo.EntryBytes
		}),
		chains: memo.New(memo.Limit{Bytes: maxOriginsBytes}, func(_ originKey, found fleet.Chain) int {
			return memo.MemoryOf(found) + memo.EntryBytes
		}),
	}
}

// cachedOrigins returns the origins of the modules in a runtime's published bundle.
func (o *originCache) cachedOrigins(
	ctx context.Context, id string, kyma *v1beta2.Kyma,
	read func(context.Context, *v1beta2.Kyma) ([]bundle.Origin, error),
) ([]bundle.Origin, error) {
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return nil, nil
	}
	key := originKey{id, kyma.Status.Runtime.Published.Digest}
	if found, known := o.known.Get(key); known {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, originsWithin)
	defer cancel()
	found, err := read(ctx, kyma)
	if err != nil {
		return nil, err
	}
	o.known.Put(key, found)
	return found, nil
}

// readChain returns the runtime's last bundles, from the cache if possible. It does not cache a failed read.
func (o *originCache) readChain(
	ctx context.Context, id string, kyma *v1beta2.Kyma, read func(context.Context, *v1beta2.Kyma) (fleet.Chain, error),
) fleet.Chain {
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return fleet.Chain{Asked: true}
	}
	key := originKey{id, kyma.Status.Runtime.Published.Digest}
	if found, known := o.chains.Get(key); known {
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
	o.chains.Put(key, found)
	return found
}
