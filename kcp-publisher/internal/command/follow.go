package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/control"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/follow"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/git"
)

// followFlags say which repository the control plane follows.
type followFlags struct {
	url      string
	git      gitFlags
	interval time.Duration
	pruneAll bool
}

func (f *followFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "git-url", "", "URL of a Git repository whose objects are applied to the control plane; default: none")
	f.git.add(flags)
	flags.DurationVar(&f.interval, "git-poll-interval", 30*time.Second, "how often to look for a new commit in the Git repository")
	flags.BoolVar(&f.pruneAll, "git-prune-all", false, "allow a commit to prune all objects, or all Kymas, of earlier commits")
}

// follower returns the follower, nil without a repository.
func (f *followFlags) follower(namespace string) (*follow.Follower, error) {
	if f.url == "" {
		if f.git.isSet() || f.pruneAll {
			return nil, cli.Usage(errors.New("--git-url is required for the other --git flags to mean something"))
		}
		return nil, nil
	}
	if f.interval <= 0 {
		return nil, cli.Usage(fmt.Errorf("--git-poll-interval: %s: want more than 0", f.interval))
	}
	open := func() (*git.Repository, error) { return f.git.open("--git-url", f.url) }
	if _, err := open(); err != nil {
		return nil, err
	}
	return &follow.Follower{Open: open, Namespace: namespace, Interval: f.interval, PruneAll: f.pruneAll}, nil
}

// followWith lets the manager run the follower, and the controllers publish what it brings.
func followWith(mgr ctrl.Manager, follower *follow.Follower, kymas *control.Kymas) error {
	follower.Client, follower.Reader, follower.Events = mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("kcp-publisher")
	follower.Hold = kymas.Catalog.Hold
	kymas.Source = follower.Source
	if err := mgr.Add(follower); err != nil {
		return fmt.Errorf("follow the Git repository: %w", err)
	}
	return nil
}
