// Package runtimes implements the commands that reconcile, suspend and resume selected runtimes.
package runtimes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/pause"
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
			"bundle from the registry, and publishes a new bundle if one is due. The command first requests all " +
			"runtimes, then waits for the\n" +
			"publisher, and shows the result if you name a single runtime. The polling interval of the agent does " +
			"not change.\n\n" +
			"As in Flux, the request is an annotation: " + v1beta2.AnnotationReconcileRequested +
			" on the runtime's Kyma.",
		Example: "  kcp-publisher reconcile berlin\n  kcp-publisher reconcile --health Failing,Silent --timeout 5m",
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return cli.Usage(fmt.Errorf("--timeout %s: must be at least 0", timeout))
			}
			api, found, err := selected.Select(cmd, args, "reconcile")
			if err != nil || len(found) == 0 {
				return err
			}
			r := reconciler{api: api, progress: selection.NewProgress(cmd, "reconcile", len(found)), timeout: timeout}
			if err := r.run(cmd.Context(), found); err != nil || timeout == 0 || len(args) != 1 {
				return err
			}
			return showRuntime(cmd, &selected, args[0])
		},
	}
	selected.Add(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute,
		"maximum time to wait for the publisher after the last request; 0 does not wait")
	return cmd
}

// reconciler requests the reconciliation of runtimes, and waits for the publisher.
type reconciler struct {
	api      client.Client
	progress *selection.Progress
	// timeout is the maximum time to wait after the last request. If it is 0, the command does not wait.
	timeout time.Duration
	started time.Time
}

// run sends all requests before it waits, so that an unresponsive publisher does not delay requests.
func (r *reconciler) run(ctx context.Context, all []selection.Target) error {
	r.started = time.Now()
	var lock sync.Mutex
	var requested []selection.Target
	selection.ForEach(ctx, all, func(one selection.Target) {
		effect, err := one.Apply(ctx, r.api, actions.Reconcile(time.Now()))
		switch {
		case err != nil:
			r.progress.Fail(err)
		case r.timeout == 0:
			r.progress.Done(one, effect)
		default:
			lock.Lock()
			defer lock.Unlock()
			requested = append(requested, one)
		}
	})
	r.wait(ctx, requested)
	return r.progress.End(ctx)
}

// wait waits until the publisher has reconciled the runtimes, with one deadline for all of them.
func (r *reconciler) wait(ctx context.Context, pending []selection.Target) {
	deadline := time.Now().Add(r.timeout)
	for len(pending) > 0 {
		pending = r.check(ctx, pending, deadline)
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		if !pause.Sleep(ctx, min(handledPoll, left)) {
			return
		}
	}
	for _, one := range pending {
		r.progress.Fail(fmt.Errorf("runtime %s: the publisher did not reconcile the runtime within %s: the publisher is "+
			"not running, its --watch-label-selector does not match Kyma %s/%s, the registry is not responding, or a "+
			"commit is being applied", one.ID, r.timeout, one.Kyma.Namespace, one.Kyma.Name))
	}
}

// check reads the Kymas and returns the runtimes that the publisher has not reconciled yet, sorted by ID. After the
// deadline, it does not read Kymas.
func (r *reconciler) check(ctx context.Context, all []selection.Target, deadline time.Time) []selection.Target {
	var lock sync.Mutex
	var pending []selection.Target
	selection.ForEach(ctx, all, func(one selection.Target) {
		isPending := true
		if time.Now().Before(deadline) {
			isPending = r.isPending(ctx, one)
		}
		if isPending {
			lock.Lock()
			defer lock.Unlock()
			pending = append(pending, one)
		}
	})
	slices.SortFunc(pending, func(a, b selection.Target) int { return cmp.Compare(a.ID, b.ID) })
	return pending
}

// isPending reads a Kyma. It returns false if the publisher reconciled the Kyma or if the read failed.
func (r *reconciler) isPending(ctx context.Context, one selection.Target) bool {
	switch err := r.api.Get(ctx, client.ObjectKeyFromObject(one.Kyma), one.Kyma); {
	case ctx.Err() != nil:
		return true
	case err != nil:
		r.progress.Fail(fmt.Errorf("runtime %s: read Kyma %s/%s: %w", one.ID, one.Kyma.Namespace, one.Kyma.Name, err))
	case plan.ReconcileRequest(one.Kyma) != "":
		return true
	default:
		r.progress.Done(one, fmt.Sprintf("reconciled after %s", time.Since(r.started).Round(100*time.Millisecond)))
	}
	return false
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
