package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func newRevoke() *cobra.Command {
	var selected targets
	cmd := &cobra.Command{
		Use: "revoke [RUNTIME...]", Short: "revokes the keys of runtimes' agents",
		Long: "revoke adds the key that each selected runtime's agent uses to the annotation " + v1beta2.AnnotationRevokedKeys + " of its Kyma.\n" +
			"The publisher refuses reports that a revoked key signs. An agent needs a new enrollment afterwards.",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := selected.run(cmd, args, "revoke the agent keys of", func(ctx context.Context, api client.Client, one target) (string, error) {
				return changeKyma(ctx, api, one, revokeKey)
			})
			if err != nil || selected.dryRun {
				return err
			}
			runtime := "RUNTIME"
			if len(args) == 1 {
				runtime = args[0]
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nTo enroll an agent again with another key, in the runtime:\n"+
				"  kubectl -n %s delete secret skr-agent-key\n  kubectl apply -f <(kcp-publisher enroll %s ...)\n  kubectl -n %s rollout restart deployment skr-agent\n",
				v1beta2.RuntimeNamespace, runtime, v1beta2.RuntimeNamespace)
			return err
		},
	}
	selected.add(cmd)
	return cmd
}

// revokeKey adds the key that a runtime's agent uses to the revoked keys of its Kyma.
func revokeKey(kyma *v1beta2.Kyma) (string, error) {
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Key == nil {
		return "", errors.New("its agent has no known key, because it has not reported yet")
	}
	thumbprint := kyma.Status.Runtime.Key.Thumbprint
	revoked := strings.Fields(kyma.Annotations[v1beta2.AnnotationRevokedKeys])
	if slices.Contains(revoked, thumbprint) {
		return "has already revoked key " + thumbprint, nil
	}
	kyma.Annotations = with(kyma.Annotations, v1beta2.AnnotationRevokedKeys, strings.Join(append(revoked, thumbprint), " "))
	return "no longer accepts key " + thumbprint, nil
}
