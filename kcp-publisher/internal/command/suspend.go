package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func newSuspend() *cobra.Command {
	var reason string
	cmd := steerRuntime("suspend RUNTIME", "publishes nothing to a runtime until it is resumed", func(kyma *v1beta2.Kyma) (string, error) { return suspend(kyma, reason) })
	cmd.Long = "suspend labels the runtime's Kyma " + v1beta2.LabelSkipReconciliation + "=true. What was published stays in force: the agent keeps it in line, and\n" +
		"reports, which nobody reads until `kcp-publisher resume`."
	cmd.Flags().StringVar(&reason, "reason", "", "why, for others to see: an annotation of the Kyma")
	return cmd
}

func newResume() *cobra.Command {
	return steerRuntime("resume RUNTIME", "publishes to a suspended runtime again", resume)
}

// steerRuntime makes a command that changes labels and annotations of a runtime's Kyma; change returns what to tell.
func steerRuntime(use, short string, change func(*v1beta2.Kyma) (string, error)) *cobra.Command {
	var api controlPlane
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cli.Exactly(1, "one runtime id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kymas, err := api.connect()
			if err != nil {
				return err
			}
			_, told, err := changeKyma(cmd.Context(), kymas, api.namespace, args[0], change)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "runtime %s %s\n", args[0], told)
			return nil
		},
	}
	api.add(cmd.Flags(), "the Kymas")
	cli.Complete(cmd, api.runtimes)
	return cmd
}

// changeKyma changes the Kyma of a runtime, which the publisher writes at any time.
func changeKyma(ctx context.Context, api client.Client, namespace, runtime string, change func(*v1beta2.Kyma) (string, error)) (kyma *v1beta2.Kyma, told string, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if kyma, err = findKyma(ctx, api, namespace, runtime); err != nil {
			return err
		}
		before := kyma.DeepCopy()
		if told, err = change(kyma); err != nil {
			return fmt.Errorf("runtime %s: %w", runtime, err)
		}
		if err := api.Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("change Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
		}
		return nil
	})
	return kyma, told, err
}

// maxReasonBytes bounds what is noted of why a runtime is suspended.
const maxReasonBytes = 1 << 10

func suspend(kyma *v1beta2.Kyma, reason string) (string, error) {
	switch {
	case len(reason) > maxReasonBytes:
		return "", cli.Usage(fmt.Errorf("--reason: want at most %d bytes, got %d", maxReasonBytes, len(reason)))
	case v1beta2.TakenOver(kyma):
		return "", fmt.Errorf("it is taken over from lifecycle-manager, and its label %s keeps that one away: run `kcp-publisher takeover finish` or `abort` first",
			v1beta2.LabelSkipReconciliation)
	case !kyma.DeletionTimestamp.IsZero():
		return "", fmt.Errorf("its Kyma is being deleted, which nothing suspends")
	}
	before := kyma.Labels[v1beta2.LabelSkipReconciliation]
	kyma.Labels = with(kyma.Labels, v1beta2.LabelSkipReconciliation, v1beta2.True)
	if reason != "" {
		kyma.Annotations = with(kyma.Annotations, v1beta2.AnnotationSuspendReason, bundle.PrintableLine(reason))
	}
	if before == v1beta2.True {
		return "was suspended already", nil
	}
	return "is suspended: what was published to it stays in force, nothing new is published", nil
}

func resume(kyma *v1beta2.Kyma) (string, error) {
	if v1beta2.TakenOver(kyma) {
		return "", fmt.Errorf("it is taken over from lifecycle-manager, and its label %s keeps that one away: it is not suspended", v1beta2.LabelSkipReconciliation)
	}
	suspended := kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True
	delete(kyma.Labels, v1beta2.LabelSkipReconciliation)
	delete(kyma.Annotations, v1beta2.AnnotationSuspendReason)
	if !suspended {
		return "was not suspended", nil
	}
	return "is resumed", nil
}

// with returns a map with one more entry, made where there is none.
func with(all map[string]string, key, value string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}
