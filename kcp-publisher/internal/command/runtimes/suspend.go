package runtimes

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/selection"
)

// NewSuspend returns the command suspend.
func NewSuspend() *cobra.Command {
	var reason string
	cmd := changeRuntimes("suspend", "suspend publishing to runtimes", func() actions.Runtime {
		return actions.Suspend(reason)
	})
	cmd.Long = "suspend sets the label " + v1beta2.LabelSkipReconciliation +
		"=true on the Kyma of each selected runtime. The agent continues to apply the published\n" +
		"bundle, to correct drift and to send reports. The publisher does not read reports until " +
		"`kcp-publisher resume`."
	cmd.Example = "  kcp-publisher suspend berlin oslo --reason \"datacenter move\"\n  kcp-publisher suspend -l " +
		"kyma-project.io/region=eu --dry-run\n  kcp-publisher suspend --health Failing --yes"
	cmd.Flags().StringVar(&reason, "reason", "", "reason for other operators, stored as an annotation on the Kyma")
	return cmd
}

// NewResume returns the command resume.
func NewResume() *cobra.Command {
	cmd := changeRuntimes("resume", "resume publishing to suspended runtimes", actions.Resume)
	cmd.Long = "resume removes the label " + v1beta2.LabelSkipReconciliation +
		" from the Kyma of each selected runtime."
	cmd.Example = "  kcp-publisher resume berlin\n  kcp-publisher resume --health Suspended"
	return cmd
}

func changeRuntimes(verb, short string, action func() actions.Runtime) *cobra.Command {
	var selected selection.Targets
	cmd := &cobra.Command{
		Use: verb + " [RUNTIME...]", Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			return selected.Run(cmd, args, verb,
				func(ctx context.Context, api client.Client, one selection.Target) (string, error) {
					return one.Apply(ctx, api, action())
				})
		},
	}
	selected.Add(cmd)
	return cmd
}
