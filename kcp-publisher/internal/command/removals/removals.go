// Package removals implements the command that lists and approves held module removals.
package removals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
)

// New returns the command removals.
func New() *cobra.Command {
	var api controlplane.Flags
	var format string
	cmd := &cobra.Command{
		Use: "removals", Short: "list module removals that require approval", Args: cli.Exactly(0, "no arguments"),
		Long: "removals lists the module removals that the publisher withholds until an operator approves them. " +
			"Possible causes are a Git\n" +
			"commit, an edited ModuleReleaseMeta or label, deleted Kymas, a deleted namespace, or a restored " +
			"control plane.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := api.Connect()
			if err != nil {
				return err
			}
			found, err := readRemovals(cmd.Context(), client, api.Namespace)
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), format, found, found.draw)
		},
	}
	api.Add(cmd.Flags(), "the Kymas")
	cli.OutputFlag(cmd.Flags(), &format)
	cmd.AddCommand(newRemovalsApprove())
	return cmd
}

func newRemovalsApprove() *cobra.Command {
	var api controlplane.Flags
	cmd := &cobra.Command{
		Use: "approve ID", Short: "approve held removals", Args: cli.Exactly(1, "the ID of held removals"),
		Long: "approve permits the publisher to perform the removals that `kcp-publisher removals` lists under an " +
			"ID. Each ID identifies one set\n" +
			"of runtimes: if this set has changed, the command fails and approves nothing.",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := api.Connect()
			if err != nil {
				return err
			}
			message, err := approveRemovals(cmd.Context(), client, api.Namespace, args[0])
			if message != "" {
				fmt.Fprintln(cmd.OutOrStdout(), message)
			}
			return err
		},
	}
	api.Add(cmd.Flags(), "the Kymas")
	return cmd
}

type waitingRemovals struct {
	Waiting []waitingRemoval `json:"waiting"`
}

type waitingRemoval struct {
	ID string `json:"id"`
	// Module is the module to remove. It is empty if all modules of deleted Kymas are removed, or if a Git commit waits
	// for approval.
	Module   string     `json:"module,omitempty"`
	Commit   string     `json:"commit,omitempty"`
	Reason   string     `json:"reason"`
	Since    *time.Time `json:"since,omitempty"`
	Runtimes []string   `json:"runtimes,omitempty"`
	Message  string     `json:"message,omitempty"`
}

func readRemovals(ctx context.Context, api client.Reader, namespace string) (found waitingRemovals, err error) {
	held, err := heldRemovals(ctx, api, namespace)
	if err != nil {
		return found, err
	}
	commit, message, err := follow.WaitingCommit(ctx, api, namespace)
	if err != nil {
		return found, err
	}
	found.Waiting = []waitingRemoval{}
	if commit != "" {
		found.Waiting = append(found.Waiting, waitingRemoval{
			ID: commit, Commit: commit, Reason: v1beta2.ReasonPruneNotAllowed, Message: message,
		})
	}
	for _, h := range held {
		row := waitingRemoval{ID: h.ID, Module: h.Module, Reason: h.Reason, Since: &h.Since}
		for _, kyma := range h.Kymas {
			row.Runtimes = append(row.Runtimes, plan.RuntimeID(kyma))
		}
		found.Waiting = append(found.Waiting, row)
	}
	return found, nil
}

func heldRemovals(ctx context.Context, api client.Reader, namespace string) ([]plan.HeldRemoval, error) {
	kymas, err := controlplane.ReadKymas(ctx, api, controlplane.KymaSelector{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	return plan.HeldRemovals(kymas), nil
}

const maxShownRuntimes = 3

func (w waitingRemovals) draw(out io.Writer) {
	if len(w.Waiting) == 0 {
		fmt.Fprintln(out, "no removals require approval")
		return
	}
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"ID", "REMOVES", "RUNTIMES", "REASON", "SINCE", "MESSAGE"})
	for _, row := range w.Waiting {
		removes, since := "all modules", ""
		switch {
		case row.Module != "":
			removes = "module " + row.Module
		case row.Commit != "":
			removes = "see MESSAGE"
		}
		if row.Since != nil {
			since = row.Since.UTC().Format(time.RFC3339)
		}
		runtimes := strings.Join(row.Runtimes[:min(len(row.Runtimes), maxShownRuntimes)], ", ")
		if more := len(row.Runtimes) - maxShownRuntimes; more > 0 {
			runtimes += fmt.Sprintf(", and %d more", more)
		}
		t.AppendRow(table.Row{row.ID, removes, runtimes, row.Reason, since, row.Message})
	}
	t.Render()
	fmt.Fprintln(out, "to approve removals, run: kcp-publisher removals approve ID")
}

// approveRemovals approves the removals with this ID and returns a message with the result. It approves the removal in
// each Kyma separately. If one approval fails, the others stay in effect.
func approveRemovals(ctx context.Context, api client.Client, namespace, id string) (string, error) {
	commit, _, err := follow.WaitingCommit(ctx, api, namespace)
	if err != nil {
		return "", err
	}
	if commit == id {
		if err := follow.AllowDeletions(ctx, api, namespace, commit); err != nil {
			return "", err
		}
		return "approved the removals of commit " + commit, nil
	}
	held, err := heldRemovals(ctx, api, namespace)
	if err != nil {
		return "", err
	}
	for _, h := range held {
		if h.ID != id {
			continue
		}
		approved := 0
		var failed []error
		for _, kyma := range h.Kymas {
			isApproved, err := approveRemoval(ctx, api, kyma, h.Module)
			if isApproved {
				approved++
			}
			failed = append(failed, err)
		}
		if approved == len(h.Kymas) {
			return fmt.Sprintf("approved removals in %d runtimes", approved), nil
		}
		return fmt.Sprintf("approved removals in %d of %d runtimes; the other removals failed or are not held anymore",
			approved, len(h.Kymas)), errors.Join(failed...)
	}
	return "",
		cli.Usage(fmt.Errorf("no held removals have ID %s: run `kcp-publisher removals` to list the current IDs",
			id))
}

func approveRemoval(
	ctx context.Context, api client.Client, kyma *v1beta2.Kyma, module string,
) (isApproved bool, err error) {
	shown := plan.FindRemovalDecision(kyma, module).Time
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var newest v1beta2.Kyma
		if err := api.Get(ctx, client.ObjectKeyFromObject(kyma), &newest); err != nil {
			return err
		}
		if d := plan.FindRemovalDecision(&newest, module); d == nil || !d.Time.Equal(&shown) {
			return nil // this removal does not wait anymore, or has been requested again
		}
		before := newest.DeepCopy()
		if !plan.Approve(&newest, module) {
			isApproved = true // another client approved the removal
			return nil
		}
		err := api.Patch(ctx, &newest, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		isApproved = err == nil
		return err
	})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("annotate Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	return isApproved, nil
}
