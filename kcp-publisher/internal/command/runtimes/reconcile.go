// Package runtimes implements the commands that reconcile, suspend and resume selected runtimes.
package runtimes

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/selection"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/status"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

const handledPoll = 300 * time.Millisecond

// NewReconcile returns the command reconcile.
func NewReconcile() *cobra.Command {
	var selected selection.Targets
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "reconcile [RUNTIME...]", Short: "trigger reconciliation of runtimes",
		Long: "reconcile asks the publisher to reconcile each selected runtime immediately. The publisher " +
			"fetches the report, reads the\n" +
			"bundle from the registry, and publishes a new bundle if one is due. The command waits for the " +
			"publisher, and shows the result\n" +
			"if you name a single runtime. The polling interval of the agent does not change.\n\n" +
			"As in Flux, the request is an annotation: " + v1beta2.AnnotationReconcileRequested +
			" on the runtime's Kyma.",
		Example: "  kcp-publisher reconcile berlin\n  kcp-publisher reconcile --health Failing,Silent --timeout 5m",
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return cli.Usage(fmt.Errorf("--timeout %s: must be at least 0", timeout))
			}
			err := selected.Run(cmd, args, "reconcile",
				func(ctx context.Context, api client.Client, one selection.Target) (string, error) {
					return reconcile(ctx, api, one, timeout)
				})
			if err != nil || selected.DryRun || timeout == 0 || len(args) != 1 {
				return err
			}
			return showRuntime(cmd, &selected, args[0])
		},
	}
	selected.Add(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute,
		"maximum time to wait for the publisher, per runtime; 0 does not wait")
	return cmd
}

// reconcile triggers the reconciliation of one runtime. It waits for the publisher, unless the timeout is 0.
func reconcile(ctx context.Context, api client.Client, one selection.Target, timeout time.Duration) (string, error) {
	started := time.Now()
	effect, err := one.Apply(ctx, api, actions.Reconcile(started))
	if err != nil || timeout == 0 {
		return effect, err
	}
	if err := waitHandled(ctx, api, one.Kyma, timeout); err != nil {
		return "", fmt.Errorf("runtime %s: %w", one.ID, err)
	}
	return fmt.Sprintf("reconciled after %s", time.Since(started).Round(100*time.Millisecond)), nil
}

func showRuntime(cmd *cobra.Command, t *selection.Targets, id string) error {
	api, err := t.Connect()
	if err != nil {
		return err
	}
	kyma, err := controlplane.FindKyma(cmd.Context(), api, t.Namespace, id)
	if err != nil {
		return err
	}
	rollouts, err := controlplane.ReadRollouts(cmd.Context(), api, kyma.Namespace)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout())
	status.DrawKyma(cmd.OutOrStdout(), kyma, rollouts, time.Now())
	return nil
}

func waitHandled(ctx context.Context, api client.Reader, kyma *v1beta2.Kyma, timeout time.Duration) error {
	err := poll.PollUntilContextTimeout(ctx, handledPoll, timeout, true, func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(kyma), kyma)
		return err == nil && plan.ReconcileRequest(kyma) == "", err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case poll.Interrupted(err):
		return fmt.Errorf(
			"the publisher did not reconcile the runtime within %s: the publisher is not running, its "+
				"--watch-label-selector does not match Kyma %s/%s, "+
				"the registry is not responding, or a commit is being applied", timeout, kyma.Namespace, kyma.Name)
	case err != nil:
		return fmt.Errorf("read Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	return nil
}
