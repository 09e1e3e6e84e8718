package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/replica"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

func (f *runFlags) checkShards() error {
	if f.shards < 1 || f.shards > shard.MaxShards {
		return cli.Usage(fmt.Errorf("--shards %d: must be 1 to %d", f.shards, shard.MaxShards))
	}
	return nil
}

type shardedPublisher struct {
	flags  *runFlags
	all    shard.Share // the Kymas of all shards
	parts  *manager.Parts
	board  *replica.Board
	owned  *owned
	scheme *runtime.Scheme
}

// runShards runs one of the replicas that share the fleet's shards. Every replica serves the webhooks.
func (f *runFlags) runShards(
	ctx context.Context, g *cli.Root, config *rest.Config, scheme *runtime.Scheme, all shard.Share,
) error {
	parts, err := f.manager.NewParts(config, ctrl.Options{
		Scheme: scheme, Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{f.namespace: {}}},
		LeaderElectionNamespace: f.namespace,
	})
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to the control plane: %w", err)
	}
	// A publisher without shards uses the same Lease as the planner, so both cannot run at the same time.
	name := f.lease()
	board := replica.NewBoard(api, f.namespace, name, parts.Holder, f.shards)
	s := &shardedPublisher{f, all, parts, board, newOwned(f.shards, board.Hint), scheme}
	if s.owned.reads, err = f.notifications.setUp(parts.Outer, s.owned, f.keys, f.location); err != nil {
		return err
	}
	board.Hinted = s.owned.handleForwarded
	one := &replica.Replica{Board: s.board, Parts: parts, Shards: f.shards, RunPart: s.runPart,
		Leases: func(part int) string {
			if part == replica.Planner {
				return name
			}
			return fmt.Sprintf("%s-shard-%d", name, part)
		}}
	if err := errors.Join(parts.Outer.Add(s.board), parts.Outer.Add(one)); err != nil {
		return err
	}
	return f.start(ctx, g, parts.Outer)
}

func (s *shardedPublisher) runPart(ctx context.Context, part int, lease *manager.Lease) error {
	if part == replica.Planner {
		return s.runPlanner(ctx, lease)
	}
	return s.runShard(ctx, part, lease)
}

func (s *shardedPublisher) runShard(ctx context.Context, number int, lease *manager.Lease) error {
	f := s.flags
	own := shard.Share{Selector: s.all.Selector, Number: number, Count: f.shards}
	kymas, err := f.kymas(own)
	if err != nil {
		return err
	}
	mgr, err := s.parts.New(ctrl.Options{Scheme: s.scheme, Cache: f.cacheOptions(own)}, lease)
	if err != nil {
		return err
	}
	kymas.Planner = &controller.RemotePlanner{
		Announced: s.board.Announced,
		SendReportTimes: func(ctx context.Context, data []byte) error {
			return s.board.WriteReportTimes(ctx, number, data)
		},
	}
	kymas.Publisher.MayPush = func() error {
		if _, known := s.board.Announced(); !known {
			return errors.New("the rollout planner has not announced a valid plan")
		}
		return lease.CheckHeld()
	}
	if f.follow.url != "" {
		kymas.Planner.Git = &controller.RemoteGit{Approvals: s.board.Approvals, Compare: s.board.RequestComparison}
	}
	if err := controller.Setup(mgr, kymas, f.concurrency); err != nil {
		return fmt.Errorf("set up shard %d: %w", number, err)
	}
	if err := s.owned.add(mgr, number, kymas); err != nil {
		return fmt.Errorf("set up shard %d: %w", number, err)
	}
	defer kymas.Retire()
	return mgr.Start(ctx)
}

// runPlanner runs the rollout planner, which decides for all shards. Only the replica that holds the lease runs it.
func (s *shardedPublisher) runPlanner(ctx context.Context, lease *manager.Lease) error {
	f := s.flags
	if err := s.waitForShardCount(ctx); err != nil {
		return err
	}
	mgr, err := s.parts.New(ctrl.Options{Scheme: s.scheme, Cache: f.cacheOptions(s.all)}, lease)
	if err != nil {
		return err
	}
	planner := &controller.Planner{
		Catalog: &controller.Catalog{Namespace: f.namespace, Restricted: f.restricted},
		Shards:  f.shards, Selected: s.all.HasSelector(),
		PollInterval:      f.reportPoll,
		AgentPollInterval: f.settings.Poll, ReportInterval: f.settings.Report, TrustAuthors: f.trustAuthors,
		ReportTimes: s.board.ReportTimes, MayWrite: lease.CheckHeld, Now: time.Now,
		Announce: func(ctx context.Context, a shard.Announcement) error {
			if err := lease.CheckHeld(); err != nil {
				return err
			}
			return s.board.Announce(ctx, a)
		},
	}
	follower, err := f.follow.newFollower(f.namespace, f.selector)
	if err != nil {
		return err
	}
	if err := controller.SetupPlanner(mgr, planner); err != nil {
		return fmt.Errorf("set up the planner: %w", err)
	}
	if follower != nil {
		if err := planWith(mgr, follower, planner, s.board); err != nil {
			return err
		}
	}
	defer s.board.ClearAnnouncement()
	return mgr.Start(ctx)
}

// waitForShardCount waits until all replicas use the same number of shards. Otherwise, two replicas could publish to
// the same runtime.
func (s *shardedPublisher) waitForShardCount(ctx context.Context) error {
	for {
		before, known := s.board.Shards()
		if known && (before == 0 || before == s.flags.shards) {
			return nil
		}
		if known {
			break
		}
		if !cli.Sleep(ctx, time.Second) {
			return nil
		}
	}
	ctrl.Log.Info("the number of shards has changed, waiting until no replica uses the old number")
	if err := s.board.Announce(ctx, shard.Announcement{}); err != nil {
		return err
	}
	_ = cli.Sleep(ctx, replica.OutdatedAfter) // returns early if the context ends
	return nil
}
