package promote

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
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/preview"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/promote"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

type trainPromoteFlags struct {
	*trainFlags
	commits commitFlags
	prefix  string
}

func newTrainPromote(common *trainFlags) *cobra.Command {
	f := &trainPromoteFlags{trainFlags: common}
	cmd := &cobra.Command{
		Use:   "promote [POLICY]",
		Short: "commit the due promotions from PromotionPolicies to Git",
		Long: "promote evaluates PromotionPolicies as the publisher does, and commits the due promotions that the " +
			"publisher does not\n" +
			"perform itself: promotions of policies with promoteBy: Command, and promotions of modules whose " +
			"ModuleReleaseMeta\n" +
			"is from a Git commit. Run it on a schedule.",
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
	api, err := f.Connect()
	if err != nil {
		return err
	}
	due, err := f.duePromotions(cmd.Context(), api, args, time.Now())
	if err != nil {
		return err
	}
	rows := []Result{}
	var problems []error
	for _, p := range due {
		row, err := f.commit(cmd.Context(), repository, change, p)
		switch {
		case errors.Is(err, promote.ErrNothing) || errors.Is(err, errProposed):
			// An earlier run committed the promotion, but the control plane does not have the commit yet.
			cli.Printf(cmd.ErrOrStderr(), "%v\n", err)
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

// duePromotions returns the due promotions that the publisher leaves to `train promote`.
func (f *trainFlags) duePromotions(
	ctx context.Context, api client.Client, args []string, now time.Time,
) ([]train.Promotion, error) {
	if _, err := f.policies(ctx, api, args); err != nil {
		return nil, err
	}
	all, err := f.policies(ctx, api, nil) // another policy can promote to one of this train's channels
	if err != nil {
		return nil, err
	}
	known, err := preview.Read(ctx, api, f.Namespace)
	if err != nil {
		return nil, err
	}
	in := train.Input{
		Policies:        all,
		Metas:           slices.Collect(maps.Values(known.Metas)),
		Templates:       slices.Collect(maps.Values(known.Templates)),
		Rollouts:        known.Rollouts,
		RolloutPolicies: slices.Collect(maps.Values(known.Policies)),
		Now:             now,
	}
	snapshot, err := catalog.New(in.Templates, in.Metas)
	if err != nil {
		return nil, err
	}
	in.Fleet = train.Count(plan.Members(known.ListKymas(), snapshot),
		func(kyma *v1beta2.Kyma) bool { return plan.ShowsReporting(kyma, now) })
	var due []train.Promotion
	for _, one := range train.Plan(in) {
		if len(args) == 1 && args[0] != one.Policy.Name || !isRecorded(one.Policy) {
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

// isRecorded reports whether the publisher has evaluated the current spec of the policy.
func isRecorded(p *v1alpha1.PromotionPolicy) bool { return p.Status.ObservedGeneration == p.Generation }

// commit creates and pushes the commit for one promotion. It fails if the repository and the control plane have
// different versions in one of the two channels.
func (f *trainPromoteFlags) commit(
	ctx context.Context, repository *git.Repository, change git.Change, p train.Promotion,
) (Result, error) {
	want := promotionRequest{module: p.Module, from: p.From, to: p.To, dryRun: f.commits.dryRun}
	if f.prefix != "" {
		want.branch = fmt.Sprintf("%s%s-%s-%s", f.prefix, p.Module, p.To, p.Version)
	}
	want.check = func(found promote.Promotion) error {
		if found.To == p.Version && found.From == p.PreviousVersion {
			return nil
		}
		const differs = "module %s: the repository has version %s in channel %s and %s in channel %s, but " +
			"the control plane has %s and %s there: wait until the publisher has applied the commit"
		return fmt.Errorf(differs, p.Module, found.To, p.From, cmp.Or(found.From, "no version"), p.To,
			p.Version, p.PreviousVersion)
	}
	row, err := commitPromotion(ctx, repository, change, want)
	if errors.Is(err, git.ErrExists) {
		return row, checkProposed(ctx, repository, row, want)
	}
	return row, err
}

// errProposed means that an earlier run already pushed the promotion to the branch.
var errProposed = errors.New("the branch already contains the promotion")

// checkProposed returns errProposed if the existing branch adds one commit with exactly this promotion to the followed
// branch. Otherwise, it returns an error that explains the conflict.
//
// The branch name alone is not sufficient: any user with push permission could block the promotion with a branch of
// this name, or add changes that a reviewer of the promotion does not expect. With --git-signers, the branch's commit
// must also be signed.
func checkProposed(ctx context.Context, repository *git.Repository, row Result, want promotionRequest) error {
	const way = "merge or delete the branch, or choose another --branch-prefix"
	branch := repository.WithRevision(row.Branch, "")
	commit, err := branch.Commit(ctx)
	if err != nil {
		return fmt.Errorf("%s already exists, but cannot be read: %w: %s", branch.Revision(), err, way)
	}
	if err := checkPromotes(ctx, repository, branch, commit, row.To, want); err != nil {
		return fmt.Errorf("%s already exists, but its commit %s is not only the promotion of module %s to %s in "+
			"channel %s: %w: %s", branch.Revision(), commit.Hash, row.Module, row.To, row.Channel, err, way)
	}
	return fmt.Errorf("%s at commit %s: %w", branch.Revision(), commit.Hash, errProposed)
}

// checkPromotes returns an error unless the branch adds exactly one commit that contains only the promotion to this
// version.
func checkPromotes(
	ctx context.Context, repository, branch *git.Repository, commit *git.Commit, version string, want promotionRequest,
) error {
	parent, err := branch.Parent(ctx, commit)
	if err != nil {
		return err
	}
	followed, err := repository.Commit(ctx)
	if err != nil {
		return err
	}
	if known, err := repository.IsDescendant(ctx, followed, parent.Hash); err != nil {
		return err
	} else if !known {
		return fmt.Errorf("%s does not contain commit %s of the branch", repository.Revision(), parent.Hash)
	}
	objects, err := source.Files(parent.Files, repository.Path)
	if err != nil {
		return fmt.Errorf("commit %s: %w", parent.Hash, err)
	}
	want.check = func(found promote.Promotion) error {
		if found.To != version {
			return fmt.Errorf("its parent requires a promotion to version %s", found.To)
		}
		return nil
	}
	files, _, err := editPromotion(repository, parent, objects, want)
	if errors.Is(err, promote.ErrNothing) {
		return fmt.Errorf("its parent %s already has the promotion", parent.Hash) // ErrNothing would count as success
	}
	if err != nil {
		return err
	}
	if only, err := repository.IsChange(commit, parent, git.Change{Files: files}); err != nil {
		return err
	} else if !only {
		return fmt.Errorf("the commit contains other changes: see `git show %s`", commit.Hash)
	}
	return nil
}
