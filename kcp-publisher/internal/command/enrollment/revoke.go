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
		Use: "revoke [RUNTIME...]", Short: "revoke runtimes' agent keys",
		Long: "revoke adds the current key of each selected runtime's agent to the annotation " +
			v1beta2.AnnotationRevokedKeys + " of its Kyma.\n" +
			"The publisher refuses reports signed with a revoked key, until the agent enrolls again with another key.",
		RunE: func(cmd *cobra.Command, args []string) error {
			again := "RUNTIME --kyma NAMESPACE/KYMA"
			err := selected.Run(cmd, args, "revoke the agent keys of",
				func(ctx context.Context, api client.Client, one selection.Target) (string, error) {
					if len(args) == 1 {
						again = fmt.Sprintf("%s --kyma %s/%s", one.ID, one.Kyma.Namespace, one.Kyma.Name)
					}
					return one.Apply(ctx, api, actions.Revoke())
				})
			if err != nil || selected.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nTo enroll an agent again with another key, in the runtime:\n"+
				"  kubectl -n %s delete secret skr-agent-key\n  kubectl apply -f <(kcp-publisher enroll %s ...)\n",
				v1beta2.RuntimeNamespace, again)
			return err
		},
	}
	selected.Add(cmd)
	return cmd
}
