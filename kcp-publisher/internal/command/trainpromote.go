package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/promote"
)

// trainPromoteFlags are the flags of `train promote`.
type trainPromoteFlags struct {
	*trainFlags
	commits commitFlags
	prefix  string
}

func newTrainPromote(common *trainFlags) *cobra.Command {
	f := &trainPromoteFlags{trainFlags: common}
	cmd := &cobra.Command{
		Use:   "promote [POLICY]",
		Short: "commit the promotions that are due",
		Long: "promote evaluates PromotionPolicies as the publisher does, and commits each promotion that is due and " +
			"that\n" +
			"the publisher leaves to this command: with promoteBy: Command, and for ModuleReleaseMetas that a Git " +
			"commit\n" +
			"applied. Run it on a schedule.",
		Args: atMostOnePolicy,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	f.commits.add(flags)
	flags.StringVar(&f.prefix, "branch-prefix", "",
		"push each promotion to a new branch with this prefix, for review; default: commit to --git-branch")
	cli.OutputFlag(flags, &common.format)
	cli.Complete(cmd, common.policyNames)
	return cmd
}

func (f *trainPromoteFlags) run(cmd *cobra.Command, args []string) error {
	if err := cli.RequireFlags(f.commits.required()...); err != nil {
		return err
	}
	repository, change, err := f.commits.open()
	if err != nil {
		return err
	}
	api, err := f.connect()
	if err != nil {
		return err
	}
	due, err := f.due(cmd.Context(), api, args, time.Now())
	if err != nil {
		return err
	}
	rows := []promoted{}
	var problems []error
	for _, p := range due {
		row, err := f.commit(cmd.Context(), repository, change, p)
		switch {
		case errors.Is(err, promote.ErrNothing) || errors.Is(err, git.ErrExists):
			fmt.Fprintf(cmd.ErrOrStderr(), "%v\n", err) // committed before, and not applied yet
		case err != nil:
			problems = append(problems, err)
		default:
			rows = append(rows, row)
		}
	}
	printed := cli.Print(cmd.OutOrStdout(), f.format, rows, func(out io.Writer) {
		for _, row := range rows {
			row.draw(out)
		}
		if len(due) == 0 {
			fmt.Fprintln(out, "no promotion is due")
		}
	})
	return errors.Join(append(problems, printed)...)
}

// due returns the promotions that are due and left to the command.
func (f *trainFlags) due(
	ctx context.Context, api client.Client, args []string, now time.Time,
) ([]train.Promotion, error) {
	if _, err := f.policies(ctx, api, args); err != nil {
		return nil, err
	}
	all, err := f.policies(ctx, api, nil) // another policy can own a channel
	if err != nil {
		return nil, err
	}
	known, err := readFleet(ctx, api, f.namespace)
	if err != nil {
		return nil, err
	}
	in := train.Input{
		Policies:  all,
		Metas:     slices.Collect(maps.Values(known.metas)),
		Templates: slices.Collect(maps.Values(known.templates)),
		Rollouts:  known.rollouts,
		Waves:     slices.Collect(maps.Values(known.policies)),
		Now:       now,
	}
	snapshot, err := catalog.New(in.Templates, in.Metas)
	if err != nil {
		return nil, err
	}
	in.Fleet = train.Count(plan.Members(known.all(), snapshot))
	var due []train.Promotion
	for _, one := range train.Plan(in) {
		if len(args) == 1 && args[0] != one.Policy.Name || !recorded(one.Policy) {
			continue
		}
		for _, p := range one.Due {
			if p.ByCommand {
				due = append(due, p)
			}
		}
	}
	return due, nil
}

// recorded reports whether the publisher has evaluated the policy. Until then, the status is incomplete.
func recorded(p *v1alpha1.PromotionPolicy) bool { return p.Status.ObservedGeneration == p.Generation }

// commit commits one promotion, if the repository has the versions that the control plane has.
func (f *trainPromoteFlags) commit(
	ctx context.Context, repository *git.Repository, change git.Change, p train.Promotion,
) (promoted, error) {
	want := wantedPromotion{module: p.Module, from: p.From, to: p.To, dryRun: f.commits.dryRun}
	if f.prefix != "" {
		want.branch = fmt.Sprintf("%s%s-%s-%s", f.prefix, p.Module, p.To, p.Version)
	}
	want.check = func(found promote.Promotion) error {
		if found.To == p.Version && found.From == p.Had {
			return nil
		}
		const differs = "module %s: the repository has %s in channel %s and %s in channel %s, " +
			"the control plane has %s and %s: wait until the commit is applied"
		return fmt.Errorf(differs, p.Module, found.To, p.From, cmp.Or(found.From, "no version"), p.To, p.Version, p.Had)
	}
	return commitPromotion(ctx, repository, change, want)
}
