package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func newSuspend() *cobra.Command {
	var reason string
	cmd := changeRuntimes("suspend", "stops publishing to runtimes until they are resumed", func(kyma *v1beta2.Kyma) (string, error) { return suspend(kyma, reason) })
	cmd.Long = "suspend labels the Kyma of each selected runtime " + v1beta2.LabelSkipReconciliation + "=true. The published bundle stays in force: the agent keeps\n" +
		"correcting drift and sending reports. The publisher reads no report until `kcp-publisher resume`."
	cmd.Example = "  kcp-publisher suspend berlin oslo --reason \"datacenter move\"\n  kcp-publisher suspend -l kyma-project.io/region=eu --dry-run\n  kcp-publisher suspend --health Failing --yes"
	cmd.Flags().StringVar(&reason, "reason", "", "reason for other operators, stored as an annotation of the Kyma")
	return cmd
}

func newResume() *cobra.Command {
	cmd := changeRuntimes("resume", "publishes to suspended runtimes again", resume)
	cmd.Long = "resume removes the label " + v1beta2.LabelSkipReconciliation + " from the Kyma of each selected runtime."
	cmd.Example = "  kcp-publisher resume berlin\n  kcp-publisher resume --health Suspended"
	return cmd
}

// changeRuntimes makes a command that changes labels and annotations of the selected runtimes' Kymas. change returns
// the second half of the line to print.
func changeRuntimes(verb, short string, change func(*v1beta2.Kyma) (string, error)) *cobra.Command {
	var selected targets
	cmd := &cobra.Command{
		Use: verb + " [RUNTIME...]", Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			return selected.run(cmd, args, verb, func(ctx context.Context, api client.Client, one target) (string, error) {
				return changeKyma(ctx, api, one, change)
			})
		},
	}
	selected.add(cmd)
	return cmd
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
