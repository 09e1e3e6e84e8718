package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func newRevoke() *cobra.Command {
	var api controlPlane
	cmd := &cobra.Command{
		Use: "revoke RUNTIME", Short: "revokes the key of a runtime's agent", Args: cli.Exactly(1, "one runtime id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kymas, err := api.connect()
			if err != nil {
				return err
			}
			var thumbprint string
			// The publisher writes the same Kyma at any time.
			err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				thumbprint, err = revokeKey(cmd.Context(), kymas, api.namespace, args[0])
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "key %s of runtime %s is revoked\n\nTo enroll its agent again with another key, in the runtime:\n"+
				"  kubectl -n %s delete secret skr-agent-key\n  kubectl apply -f <(kcp-publisher enroll %s ...)\n  kubectl -n %s rollout restart deployment skr-agent\n",
				thumbprint, args[0], v1beta2.RuntimeNamespace, args[0], v1beta2.RuntimeNamespace)
			return nil
		},
	}
	api.add(cmd.Flags(), "the Kymas")
	cli.Complete(cmd, api.runtimes)
	return cmd
}

// revokeKey marks the key that a runtime's agent has as revoked, and returns its thumbprint.
func revokeKey(ctx context.Context, api client.Client, namespace, runtime string) (string, error) {
	kyma, err := findKyma(ctx, api, namespace, runtime)
	if err != nil {
		return "", err
	}
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Key == nil {
		return "", fmt.Errorf("runtime %s: no key of its agent is known", runtime)
	}
	thumbprint := kyma.Status.Runtime.Key.Thumbprint
	revoked := strings.Fields(kyma.Annotations[v1beta2.AnnotationRevokedKeys])
	if slices.Contains(revoked, thumbprint) {
		return thumbprint, nil
	}
	before := kyma.DeepCopy()
	if kyma.Annotations == nil {
		kyma.Annotations = map[string]string{}
	}
	kyma.Annotations[v1beta2.AnnotationRevokedKeys] = strings.Join(append(revoked, thumbprint), " ")
	if err := api.Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", fmt.Errorf("annotate Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	return thumbprint, nil
}
