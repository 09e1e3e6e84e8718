package enrollment

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/selection"
)

// NewRevoke returns the command revoke.
func NewRevoke() *cobra.Command {
	var selected selection.Targets
	cmd := &cobra.Command{
		Use: "revoke [RUNTIME...]", Short: "revoke the agent keys of runtimes",
		Long: "revoke adds the current key of each selected runtime's agent to the annotation " +
			v1beta2.AnnotationRevokedKeys + " of its Kyma.\n" +
			"The publisher refuses reports signed with a revoked key, until the agent enrolls again with another key.",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := selected.Run(cmd, args, "revoke the agent keys of",
				func(ctx context.Context, api client.Client, one selection.Target) (string, error) {
					return one.Apply(ctx, api, actions.Revoke())
				})
			if err != nil || selected.DryRun {
				return err
			}
			runtime := "RUNTIME"
			if len(args) == 1 {
				runtime = args[0]
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nTo enroll an agent again with another key, in the runtime:\n"+
				"  kubectl -n %s delete secret skr-agent-key\n  kubectl apply -f <(kcp-publisher enroll %s ...)\n",
				v1beta2.RuntimeNamespace, runtime)
			return err
		},
	}
	selected.Add(cmd)
	return cmd
}
