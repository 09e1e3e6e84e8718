package operator

import (
	"context"
	"errors"
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/notify"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/receiver"
)

// owned contains the shards that one replica runs. A registry can send a notification to any replica, so a replica
// forwards notifications about runtimes in other shards to the other replicas. owned is safe for concurrent use.
type owned struct {
	// count is the number of shards in the fleet.
	count int

	mu sync.Mutex // guards shards
	// shards contains the running shards by number.
	shards map[int]running
}

// running is a shard whose caches are synced. Its context is canceled when the shard stops.
type running struct {
	ctx   context.Context
	kymas *controller.Kymas
}

func newOwned(count int) *owned {
	return &owned{count: count, shards: map[int]running{}}
}

// add registers the shard with this number while the shard's manager runs. After the manager stops, the agents of the
// shard's runtimes are disconnected. subscribers is nil if no endpoint for agents is configured.
func (o *owned) add(
	mgr ctrl.Manager, number int, kymas *controller.Kymas, subscribers *notify.Subscribers,
) error {
	// The manager starts the function after its caches are complete.
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		o.set(number, &running{ctx, kymas})
		<-ctx.Done()
		o.set(number, nil)
		if subscribers != nil {
			subscribers.Disconnect(func(runtime string) bool { return shard.ShardOf(runtime, o.count) == number })
		}
		return nil
	}))
}

func (o *owned) set(number int, shard *running) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if shard == nil {
		delete(o.shards, number)
	} else {
		o.shards[number] = *shard
	}
}

func (o *owned) shardOf(runtime string) (running, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, ok := o.shards[shard.ShardOf(runtime, o.count)]
	return found, ok
}

// acceptsNotifications returns true, because every replica accepts notifications and passes them on.
func (o *owned) acceptsNotifications() bool { return true }

func (o *owned) owns(runtime string) bool {
	_, ok := o.shardOf(runtime)
	return ok
}

func (o *owned) hasRuntime(runtime string) bool {
	found, ok := o.shardOf(runtime)
	return ok && found.kymas.HasKyma(found.ctx, runtime)
}

func (o *owned) readReport(ctx context.Context, runtime string) error {
	found, ok := o.shardOf(runtime)
	if !ok {
		return errors.New("another replica publishes for the runtime") // that replica polls the report later
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(found.ctx, cancel)()
	return found.kymas.ReadReport(ctx, runtime)
}

// addForwarded adds runtimes to the queue after another replica forwarded notifications about them. It ignores runtimes
// in other replicas' shards.
func (o *owned) addForwarded(reads *receiver.ReadQueue, runtimes []string) {
	for _, runtime := range runtimes {
		if o.hasRuntime(runtime) {
			reads.Add(runtime)
		}
	}
}
