package rollout

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

func newRolloutStatus(f *rolloutFlags) *cobra.Command {
	watch, timeout := true, time.Duration(0)
	cmd := &cobra.Command{
		Use: "status ROLLOUT", Short: "wait until a rollout ends, and fail unless it succeeds",
		Args: cli.Exactly(1, "the name of a rollout"),
		Long: "status prints one line for each change to a rollout until it ends. It fails if the rollout does not " +
			"succeed, or does not end within --timeout.",
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := f.Connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			read := func() (*v1alpha1.Rollout, error) { return f.find(ctx, api, args[0]) }
			show := plainPrinter(cmd.OutOrStdout())
			if !watch {
				one, err := read()
				if err != nil {
					return err
				}
				show(one)
				if rollout.HasEnded(one) {
					return endError(one)
				}
				return nil
			}
			until := time.Now().Add(timeout)
			return watchRollout(ctx, followInterval, read, show, func(one *v1alpha1.Rollout) error {
				if timeout > 0 && time.Now().After(until) {
					return fmt.Errorf("rollout %s did not end within %s: its state is %s", one.Name, timeout,
						cmp.Or(string(one.Status.State), "New"))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", true, "wait until the rollout ends")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "maximum time to wait; 0 waits indefinitely")
	cli.Complete(cmd, f.Rollouts)
	return cmd
}

func newRolloutHistory(f *rolloutFlags) *cobra.Command {
	var channel string
	cmd := &cobra.Command{
		Use: "history MODULE", Short: "list a module's rollouts, newest first", Args: cli.Exactly(1, "a module"),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := f.Connect()
			if err != nil {
				return err
			}
			var all v1alpha1.RolloutList
			if err := api.List(cmd.Context(), &all, client.InNamespace(f.Namespace)); err != nil {
				return fmt.Errorf("list Rollouts in %s: %w", f.Namespace, err)
			}
			found := rolloutHistory(all.Items, args[0], channel)
			return cli.Print(cmd.OutOrStdout(), f.format, found, func(out io.Writer) {
				drawHistory(out, args[0],
					found, time.Now())
			})
		},
	}
	cmd.Flags().StringVar(&channel, "channel", "", "list only rollouts in this channel")
	cli.OutputFlag(cmd.Flags(), &f.format)
	cli.Complete(cmd, f.Modules)
	cli.CompleteFlag(cmd, "channel", f.Channels)
	return cmd
}

func rolloutHistory(all []v1alpha1.Rollout, module, channel string) []v1alpha1.Rollout {
	found := []v1alpha1.Rollout{}
	for _, r := range all {
		if r.Spec.Module == module && (channel == "" || r.Spec.Channel == channel) {
			r.ManagedFields = nil
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b v1alpha1.Rollout) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	return found
}

func drawHistory(out io.Writer, module string, all []v1alpha1.Rollout, now time.Time) {
	if len(all) == 0 {
		cli.Printf(out, "no rollouts of module %s\n", module)
		return
	}
	t, palette := terminal.NewTable(out), cli.NewPalette(out)
	t.AppendHeader(table.Row{"ROLLOUT", "CHANNEL", "FROM", "TO", "STATE", "UPDATED", "FAILED", "TIME", "MESSAGE"})
	for _, r := range all {
		s := r.Status
		t.AppendRow(table.Row{
			r.Name, r.Spec.Channel, r.Spec.From, r.Spec.To, terminal.Painted(cmp.Or(string(s.State), "New"),
				terminal.ColorOfRollout(s.State), palette),
			s.Progress, s.Failed, formatDuration(s, now), s.Message,
		})
	}
	t.Render()
}
