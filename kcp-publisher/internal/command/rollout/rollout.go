// Package rollout implements the commands that show and change rollouts, and check modules.
package rollout

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/selection"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
)

// New returns the command rollout.
func New() *cobra.Command {
	f := &rolloutFlags{}
	cmd := cli.Group("rollout", "show and control rollouts",
		newRolloutList(f), newRolloutShow(f), newRolloutStatus(f), newRolloutHistory(f),
		f.newAction("pause", "pause a rollout, so no more runtimes are updated", actions.Pause(true)),
		f.newAction("resume", "resume a paused rollout", actions.Pause(false)),
		newRolloutApprove(f), newRolloutCheck(f),
		f.newAction("abort", "stop a rollout permanently; runtimes keep their versions", actions.Abort()),
		f.newActionOnNewest("undo", "roll back every runtime that the rollout updated", actions.Undo),
		f.newActionOnNewest("retry", "retry a stopped or rolled back rollout", actions.Retry))
	f.Add(cmd.PersistentFlags(), "the Rollouts")
	return cmd
}

func newRolloutList(f *rolloutFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "list rollouts, active ones first", Args: cli.Exactly(0, "no arguments"),
		SuggestFor: []string{"get"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := f.Connect()
			if err != nil {
				return err
			}
			var all v1alpha1.RolloutList
			if err := api.List(cmd.Context(), &all, client.InNamespace(f.Scope())); err != nil {
				return fmt.Errorf("list Rollouts in %s: %w", f.Namespace, err)
			}
			slices.SortFunc(all.Items, controlplane.CompareRollouts)
			for i := range all.Items {
				all.Items[i].ManagedFields = nil
			}
			return cli.Print(cmd.OutOrStdout(), f.format, all.Items, func(out io.Writer) {
				drawRollouts(out, all.Items)
			})
		},
	}
	cli.OutputFlag(cmd.Flags(), &f.format)
	f.AddEverywhere(cmd.Flags())
	return cmd
}

func drawRollouts(out io.Writer, all []v1alpha1.Rollout) {
	if len(all) == 0 {
		fmt.Fprintln(out, "no rollouts: a promotion in a channel with a RolloutPolicy starts one")
		return
	}
	t, palette := terminal.NewTable(out), cli.NewPalette(out)
	t.AppendHeader(table.Row{"ROLLOUT", "FROM", "TO", "STATE", "WAVE", "UPDATED", "FAILED", "DEFERRED", "MESSAGE"})
	for _, r := range all {
		s := r.Status
		t.AppendRow(table.Row{
			r.Name, r.Spec.From, r.Spec.To, terminal.Painted(string(s.State), terminal.ColorOfRollout(s.State), palette), s.Wave,
			s.Progress, s.Failed, s.Deferred, s.Message,
		})
	}
	t.Render()
}

func newRolloutShow(f *rolloutFlags) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "show ROLLOUT", Short: "show a rollout's progress, and follow it on a terminal",
		Args: cli.Exactly(1, "the name of a rollout"),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := f.Connect()
			if err != nil {
				return err
			}
			one, err := f.find(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			terminal := cli.IsTerminal(out)
			if !cmd.Flags().Changed("watch") {
				watch = terminal
			}
			if !watch || f.format != "table" {
				return cli.Print(out, f.format, one, func(out io.Writer) {
					drawRollout(out, one, time.Now(), cli.NewPalette(out))
				})
			}
			read := func() (*v1alpha1.Rollout, error) { return f.find(cmd.Context(), api, args[0]) }
			if terminal {
				return watchRollout(cmd.Context(), followInterval, read, livePrinter(out))
			}
			return watchRollout(cmd.Context(), followInterval, read, plainPrinter(out))
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow the rollout until it ends; default: true on a terminal")
	cli.OutputFlag(cmd.Flags(), &f.format)
	cli.Complete(cmd, f.Rollouts)
	return cmd
}

func (f *rolloutFlags) newAction(name, short string, action actions.Rollout) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " ROLLOUT", Short: short, Args: cli.Exactly(1, "the name of a rollout"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.change(cmd, args[0], action) },
	}
	cli.Complete(cmd, f.Rollouts)
	return cmd
}

func newRolloutApprove(f *rolloutFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "approve ROLLOUT WAVE", Short: "approve a wave that waits for approval",
		Long: "approve lets a rollout continue with a wave that waits for approval. If the wave waits because\n" +
			"more runtimes than maxDeferred are deferred, the rollout continues without them.",
		Args: cli.Exactly(2, "the names of a rollout and a wave"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := f.change(cmd, args[0], actions.Approve(args[1]))
			if errors.Is(err, actions.ErrNoApproval) {
				return cli.Usage(err)
			}
			return err
		},
	}
	cli.Complete(cmd, f.Rollouts, f.Waves)
	return cmd
}

// newActionOnNewest returns a command for an action that is possible only on the newest rollout for a module and
// channel.
func (f *rolloutFlags) newActionOnNewest(
	name, short string, change func(all []v1alpha1.Rollout) actions.Rollout,
) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " ROLLOUT", Short: short, Args: cli.Exactly(1, "the name of a rollout"),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := f.Connect()
			if err != nil {
				return err
			}
			var all v1alpha1.RolloutList
			if err := api.List(cmd.Context(), &all, client.InNamespace(f.Namespace)); err != nil {
				return fmt.Errorf("list Rollouts in %s: %w", f.Namespace, err)
			}
			return f.change(cmd, args[0], change(all.Items))
		},
	}
	cli.Complete(cmd, f.Rollouts)
	return cmd
}

func (f *rolloutFlags) change(cmd *cobra.Command, name string, action actions.Rollout) error {
	api, err := f.Connect()
	if err != nil {
		return err
	}
	result, err := actions.Apply(cmd.Context(), api, client.ObjectKey{Namespace: f.Namespace, Name: name}, "", action)
	if err != nil {
		return addListHint(fmt.Errorf("rollout %s: %w", name, err))
	}
	cli.Printf(cmd.OutOrStdout(), "rollout %s %s\n", name, selection.DescribeEffect(result))
	return nil
}
