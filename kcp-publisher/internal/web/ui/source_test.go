package ui

import (
	"context"
	"errors"
	"testing"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// lateCache is a cache that starts only when a caller waits for it.
type lateCache struct {
	cache.Cache
	started bool
}

type quietInformer struct{ cache.Informer }

func (quietInformer) AddEventHandler(
	toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

func (c *lateCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return quietInformer{}, nil
}

func (c *lateCache) WaitForCacheSync(context.Context) bool {
	c.started = true
	return true
}

func (c *lateCache) List(context.Context, client.ObjectList, ...client.ListOption) error {
	if !c.started {
		return errors.New("the cache is not started")
	}
	return nil
}

func TestSourceReadsFleetAfterCacheStart(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	assessed := func(in fleet.Input) fleet.Fleet {
		end()
		return fleet.Assess(in)
	}
	s := NewSource(&lateCache{}, "kcp-system", assessed, time.Now)
	if err := s.Run(ctx); err != nil || !s.Ready() {
		t.Errorf("Run returned %v, ready %v, want no error and ready", err, s.Ready())
	}
}
