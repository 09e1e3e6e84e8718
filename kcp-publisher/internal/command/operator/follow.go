package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/replica"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
)

type followFlags struct {
	url      string
	git      flagset.GitFlags
	interval time.Duration
	prune    flagset.PruneFlags
	rewind   bool
}

func (f *followFlags) add(flags, settings *pflag.FlagSet) {
	flags.StringVar(&f.url, "git-url", "",
		"URL of a Git repository whose objects are applied to the control plane; default: none")
	f.git.Add(flags)
	settings.DurationVar(&f.interval, "git-poll-interval", 30*time.Second,
		"interval between checks for a new commit in the Git repository")
	f.prune.Add(flags, settings)
	flags.BoolVar(&f.rewind, "allow-rewind", false,
		"apply a commit of --git-url even if it does not descend from the previously applied commit")
}

// errShard is the error for --git-url if the publisher reconciles only some Kymas.
var errShard = errors.New(
	"--git-url cannot be combined with --watch-label-selector: other publishers would not wait for a partially " +
		"applied commit; run a single publisher without a selector",
)

// options returns the Follower options that the flags define, or nil without --git-url. selector is the
// value of --watch-label-selector.
func (f *followFlags) options(namespace, selector string) (*follow.Options, error) {
	if f.url == "" {
		if f.git.IsSet() || f.prune.IsSet() || f.rewind {
			return nil, cli.Usage(errors.New("--git-url is required if other flags or settings for Git are set"))
		}
		return nil, nil
	}
	if selector != "" {
		return nil, cli.Usage(errShard)
	}
	if f.interval <= 0 {
		return nil, cli.Usage(fmt.Errorf("git-poll-interval %s: must be more than 0", f.interval))
	}
	pruning, err := f.prune.PruningLimits()
	if err != nil {
		return nil, err
	}
	open := func() (*git.Repository, error) { return f.git.Open("--git-url", f.url) }
	if _, err := open(); err != nil {
		return nil, err
	}
	return &follow.Options{
		ControlPlane: follow.ControlPlane{Namespace: namespace, Pruning: pruning},
		Open:         open, Interval: f.interval, AllowRewind: f.rewind,
	}, nil
}

// addFollower adds a Follower to the manager of the replica that applies commits.
func addFollower(mgr ctrl.Manager, options follow.Options) (*follow.Follower, error) {
	options.Client, options.Reader = mgr.GetClient(), mgr.GetAPIReader()
	options.Events = mgr.GetEventRecorder("kcp-publisher")
	follower, err := follow.New(context.Background(), options, mgr.GetCache(), &v1beta2.Kyma{}, &v1beta2.ModuleTemplate{},
		&v1beta2.ModuleReleaseMeta{}, &v1beta2.Watcher{}, &v1alpha1.RolloutPolicy{}, &v1alpha1.PromotionPolicy{})
	if err == nil {
		err = mgr.Add(follower)
	}
	if err != nil {
		return nil, fmt.Errorf("follow the Git repository: %w", err)
	}
	return follower, nil
}

// planned adds a Follower to the planner's manager. Only a publisher with shards calls it.
func planned(mgr ctrl.Manager, options follow.Options, board *replica.Board) (*controller.PlannedGit, error) {
	follower, err := addFollower(mgr, options)
	if err != nil {
		return nil, err
	}
	return &controller.PlannedGit{
		Source: follower.Source, Compared: follower.ComparedAt, Compare: follower.RequestComparison,
		Requested: board.ComparisonRequested, Holding: follower.HoldReason, Approvals: follower.Approvals,
		WriteApprovals: board.WriteApprovals, Acknowledged: board.Acknowledged,
	}, nil
}
