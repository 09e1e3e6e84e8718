package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// handledPoll is how often it is asked whether the publisher has looked at a runtime.
const handledPoll = 300 * time.Millisecond

func newReconcile() *cobra.Command {
	var api controlPlane
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "reconcile RUNTIME", Short: "lets the publisher look at a runtime now", Args: cli.Exactly(1, "one runtime id"),
		Long: "reconcile lets the publisher look at a runtime now: it fetches the report, asks the registry for the bundle, and publishes what is due. It waits until\n" +
			"that is done, and shows what came out. The agent is not told: it looks for a bundle by its own interval.\n\n" +
			"It is the annotation " + v1beta2.AnnotationReconcileRequested + " that asks for it, as in Flux, on the runtime's Kyma.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return cli.Usage(fmt.Errorf("--timeout %s: want 0 or more", timeout))
			}
			kymas, err := api.connect()
			if err != nil {
				return err
			}
			started := time.Now()
			kyma, _, err := changeKyma(cmd.Context(), kymas, api.namespace, args[0], func(k *v1beta2.Kyma) (string, error) { return "", request(k, started) })
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if timeout == 0 {
				fmt.Fprintf(out, "runtime %s: a look is asked for\n", args[0])
				return nil
			}
			if err := handled(cmd.Context(), kymas, kyma, timeout); err != nil {
				return fmt.Errorf("runtime %s: %w", args[0], err)
			}
			rollouts, err := rolloutsOf(cmd.Context(), kymas, kyma.Namespace)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "the publisher has looked at runtime %s, after %s\n\n", args[0], time.Since(started).Round(100*time.Millisecond))
			v := statusView{width: cli.Width(out), palette: cli.PaletteOf(out)}
			v.Time = time.Now()
			v.drawRuntime(out, fleet.Judge(kyma, rollouts, v.Time))
			return nil
		},
	}
	api.add(cmd.Flags(), "the Kymas")
	cli.Complete(cmd, api.runtimes)
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the publisher; 0: not at all")
	return cmd
}

// request asks the publisher for a look at a Kyma.
func request(kyma *v1beta2.Kyma, now time.Time) error {
	if plan.Skipped(kyma) {
		return errors.New("it is suspended, so that the publisher leaves it alone: run `kcp-publisher resume` first")
	}
	kyma.Annotations = with(kyma.Annotations, v1beta2.AnnotationReconcileRequested, now.UTC().Format(time.RFC3339Nano))
	return nil
}

// handled waits until the publisher has done what was asked for, and reads what it says of it.
func handled(ctx context.Context, api client.Reader, kyma *v1beta2.Kyma, timeout time.Duration) error {
	err := poll.PollUntilContextTimeout(ctx, handledPoll, timeout, true, func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(kyma), kyma)
		return err == nil && plan.Requested(kyma) == "", err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case poll.Interrupted(err):
		return fmt.Errorf("the publisher has not looked at it within %s: it does not run, its --watch-label-selector does not select Kyma %s/%s, "+
			"the registry does not answer, or a commit is being applied", timeout, kyma.Namespace, kyma.Name)
	case err != nil:
		return fmt.Errorf("read Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	return nil
}
