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
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/replica"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/notify"
)

func (f *runFlags) checkShards() error {
	if f.shards < 1 || f.shards > shard.MaxShards {
		return cli.Usage(fmt.Errorf("--shards %d: must be 1 to %d", f.shards, shard.MaxShards))
	}
	return nil
}

type shardedPublisher struct {
	flags *runFlags
	all   shard.Share // selects the Kymas of all shards
	parts *manager.Parts
	board *replica.Board
	owned *owned
	// subscribers are the connected agents, or nil without an endpoint for agents.
	subscribers *notify.Subscribers
	scheme      *runtime.Scheme
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
	secure, err := f.notifications.secure(parts.Outer)
	if err != nil {
		return err
	}
	runtimes := newOwned(f.shards)
	subscribers, err := f.notifications.setUpSubscribers(parts.Outer, runtimes.owns, f.keys, secure)
	if err != nil {
		return err
	}
	reads, err := f.notifications.setUpReads(parts.Outer, runtimes.readReport)
	if err != nil {
		return err
	}
	var forwarded func(runtimes []string)
	if reads != nil {
		forwarded = func(ids []string) { runtimes.addForwarded(reads, ids) }
	}
	// A publisher without shards uses the same Lease as the planner, so both cannot run at the same time.
	name := f.lease()
	board := replica.NewBoard(api, f.namespace, name, parts.Holder, f.shards, forwarded)
	if err := f.notifications.setUpReceiver(parts.Outer, runtimes, reads, board.Hint, f.location, secure); err != nil {
		return err
	}
	s := &shardedPublisher{f, all, parts, board, runtimes, subscribers, scheme}
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
	options, err := f.options(own)
	if err != nil {
		return err
	}
	mgr, err := s.parts.New(ctrl.Options{Scheme: s.scheme, Cache: f.cacheOptions(own)}, lease)
	if err != nil {
		return err
	}
	options.Remote = &controller.RemoteOptions{
		Announced: s.board.Announced,
		SendReportTimes: func(ctx context.Context, data []byte) error {
			return s.board.WriteReportTimes(ctx, number, data)
		},
	}
	if f.follow.url != "" {
		options.Remote.Git = &controller.RemoteGit{Approvals: s.board.Approvals, Compare: s.board.RequestComparison}
	}
	options.Publish.MayPush = func() error {
		if _, known := s.board.Announced(); !known {
			return errors.New("the rollout planner has not announced a valid plan")
		}
		return lease.CheckHeld()
	}
	if s.subscribers != nil {
		options.Notify = s.subscribers.Notify
	}
	kymas, err := controller.New(mgr, options)
	if err != nil {
		return fmt.Errorf("set up shard %d: %w", number, err)
	}
	if err := s.owned.add(mgr, number, kymas, s.subscribers); err != nil {
		return fmt.Errorf("set up shard %d: %w", number, err)
	}
	defer kymas.Retire()
	return mgr.Start(ctx)
}

// runPlanner runs the rollout planner, which makes decisions for all shards. Only the replica that holds the lease runs
// it.
func (s *shardedPublisher) runPlanner(ctx context.Context, lease *manager.Lease) error {
	f := s.flags
	if err := s.waitForShardCount(ctx); err != nil {
		return err
	}
	mgr, err := s.parts.New(ctrl.Options{Scheme: s.scheme, Cache: f.cacheOptions(s.all)}, lease)
	if err != nil {
		return err
	}
	git, err := f.follow.options(f.namespace, f.selector)
	if err != nil {
		return err
	}
	options := controller.PlannerOptions{
		Namespace: f.namespace, Restricted: f.restricted,
		Shards: f.shards, Selector: s.all.Selector,
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
	if git != nil {
		options.Follow = func(hold func() func(), stop func(context.Context) error) (*controller.PlannedGit, error) {
			git.Hold, git.Stop, git.MayWrite = hold, stop, lease.CheckHeld
			return planned(mgr, *git, s.board)
		}
	}
	if _, err := controller.NewPlanner(mgr, options); err != nil {
		return fmt.Errorf("set up the planner: %w", err)
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
		if !pause.Sleep(ctx, time.Second) {
			return nil
		}
	}
	ctrl.Log.Info("the number of shards has changed, waiting until no replica uses the old number")
	if err := s.board.Announce(ctx, shard.Announcement{}); err != nil {
		return err
	}
	_ = pause.Sleep(ctx, replica.OutdatedAfter) // returns early if the context ends
	return nil
}
