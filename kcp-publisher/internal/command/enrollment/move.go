package enrollment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

type moveFlags struct {
	at       controlplane.Flags
	dir, to  string
	away     bool
	keep     bool
	patience time.Duration
}

// NewMove returns the command move.
func NewMove() *cobra.Command {
	f := &moveFlags{}
	cmd := &cobra.Command{
		Use: "move RUNTIME {--to KYMA | --away}", Short: "move a runtime to another Kyma without uninstalling anything",
		Args: cli.Exactly(1, "one runtime"),
		Long: "move --to assigns a runtime to another Kyma in the same namespace. If that Kyma does not exist, move " +
			"creates it as a copy of the\n" +
			"former Kyma. move waits until the publisher has taken over the runtime, and then deletes the former " +
			"Kyma. It authenticates the\nchange to the publisher with the token key.\n\n" +
			"To move a runtime to another namespace or control plane:\n" +
			"  1. At the destination, create the Kyma, run `kcp-publisher enroll RUNTIME --replace --kyma " +
			"NAMESPACE/KYMA`, and apply the\n     output to the runtime.\n" +
			"  2. At the origin, run `kcp-publisher move RUNTIME --away`, which stops publishing and deletes the " +
			"former Kyma.\n\n" +
			"In both cases the runtime keeps all modules and their data.",
		Example: "  kcp-publisher move berlin --to berlin-2 --keys keys\n  kcp-publisher move berlin --away",
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.at.Add(cmd.Flags(), "the Kymas")
	keyfolder.AddFlag(cmd.Flags(), &f.dir)
	cmd.Flags().StringVar(&f.to, "to", "", "Kyma to assign the runtime to")
	cmd.Flags().
		BoolVar(&f.away, "away", false,
			"stop publishing to the runtime, because another namespace or control plane owns it")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "do not delete the former Kyma")
	cmd.Flags().DurationVar(&f.patience, "wait", 2*time.Minute,
		"maximum time to wait until the publisher has recorded the change")
	return cmd
}

func (f *moveFlags) run(cmd *cobra.Command, runtime string) error {
	if (f.to == "") == !f.away {
		return cli.Usage(errors.New("exactly one of --to and --away is required"))
	}
	api, err := f.at.Connect()
	if err != nil {
		return err
	}
	var kymas v1beta2.KymaList
	if err := api.List(cmd.Context(), &kymas, client.InNamespace(f.at.Namespace)); err != nil {
		return fmt.Errorf("list Kymas in namespace %s: %w", f.at.Namespace, err)
	}
	former, err := controlplane.ChooseKyma(kymas.Items, f.at.Namespace, runtime)
	if err != nil {
		return err
	}
	if f.away {
		return f.release(cmd.Context(), api, former, cmd.OutOrStdout())
	}
	if runtime != plan.RuntimeID(former) {
		runtime = plan.ClaimedRuntimeID(former)
	}
	return f.assign(cmd.Context(), api, former, runtime, cmd.OutOrStdout())
}

// release stops publishing to a Kyma's runtime, and deletes the Kyma unless --keep is set. It annotates the Kyma first,
// so that the publisher does not uninstall the runtime's modules.
func (f *moveFlags) release(ctx context.Context, api client.Client, kyma *v1beta2.Kyma, out io.Writer) error {
	before := kyma.DeepCopy()
	kyma.Annotations = withEntry(kyma.Annotations, v1beta2.AnnotationMovedAway, v1beta2.True)
	if err := api.Patch(ctx, kyma, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("detach the runtime from Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	cli.Printf(out, "Kyma %s/%s is released: publishing to runtime %s stopped, and the runtime keeps its modules\n",
		kyma.Namespace, kyma.Name, plan.RuntimeID(kyma))
	return f.remove(ctx, api, kyma, out)
}

func (f *moveFlags) assign(
	ctx context.Context, api client.Client, former *v1beta2.Kyma, runtime string, out io.Writer,
) error {
	folder := keys.Folder{Dir: f.dir}
	tokens, err := folder.TokenSecrets()
	if err != nil {
		return err
	}
	next, created, err := f.findTarget(ctx, api, former, runtime)
	if err != nil {
		return err
	}
	at := max(time.Now().UnixMilli(), plan.AssignedAt(former)+1)
	proof, err := tokens.HandOver(plan.KymaIdentity(next), runtime, time.UnixMilli(at))
	if err != nil {
		return err
	}
	before, requested := next.DeepCopy(), time.UnixMilli(at).UTC().Format(time.RFC3339Nano)
	next.Annotations = withEntry(next.Annotations, v1beta2.AnnotationHandOver, proof)
	next.Annotations[v1beta2.AnnotationReconcileRequested] = requested
	delete(next.Annotations, v1beta2.AnnotationMovedAway)
	if err := api.Patch(ctx, next, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("assign runtime %s to Kyma %s/%s: %w", runtime, next.Namespace, next.Name, err)
	}
	if err := f.waitUntil(ctx, "the publisher to take over runtime "+runtime, func() (bool, error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(next), next); err != nil {
			return false, err
		}
		return f.isAssigned(next, at, requested)
	}); err != nil {
		if created {
			err = fmt.Errorf("%w (move created Kyma %s/%s, which does not own the runtime yet: repeat the command)", err,
				next.Namespace, next.Name)
		}
		return err
	}
	cli.Printf(out, "runtime %s now belongs to Kyma %s/%s and keeps its modules\n", runtime, next.Namespace,
		next.Name)
	if former.Name == next.Name {
		return nil
	}
	return f.remove(ctx, api, former, out)
}

// isAssigned reports whether the publisher has assigned the runtime to a Kyma. It returns an error if the publisher has
// handled the move request, but did not accept the proof that the token key created.
func (f *moveFlags) isAssigned(kyma *v1beta2.Kyma, at int64, requested string) (bool, error) {
	s := kyma.Status.Runtime
	switch {
	case plan.AssignedAt(kyma) >= at:
		return true, nil
	case kyma.Status.LastHandledReconcileAt == requested && s != nil && s.Reasons != nil &&
		s.Reasons.Publish == v1beta2.Reason(reason.DuplicateRuntimeID):
		return false, fmt.Errorf("the publisher did not accept the token key in folder %s for runtime %s: set --keys to "+
			"the folder of this fleet's keys", f.dir, plan.RuntimeID(kyma))
	}
	return false, nil
}

// findTarget returns the Kyma that the runtime moves to, and reports whether it has created the Kyma.
func (f *moveFlags) findTarget(
	ctx context.Context, api client.Client, former *v1beta2.Kyma, runtime string,
) (next *v1beta2.Kyma, created bool, err error) {
	next = &v1beta2.Kyma{}
	err = api.Get(ctx, client.ObjectKey{Namespace: f.at.Namespace, Name: f.to}, next)
	if err == nil && plan.RuntimeID(next) != runtime {
		return nil, false,
			fmt.Errorf("Kyma %s/%s is assigned to runtime %s: set its label %s to %s first", next.Namespace, next.Name,
				plan.RuntimeID(next), v1beta2.LabelRuntimeID, runtime)
	}
	if err == nil && !next.DeletionTimestamp.IsZero() {
		return nil, false, fmt.Errorf("Kyma %s/%s is being deleted, so it would remove all modules of runtime %s: choose "+
			"another Kyma", next.Namespace, next.Name, runtime)
	}
	if !apierrors.IsNotFound(err) {
		return next, false, err
	}
	if _, err := trust.ParseKyma(f.at.Namespace + "/" + f.to); err != nil {
		return nil, false, cli.Usage(fmt.Errorf("--to: %w", err))
	}
	next = &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Namespace: former.Namespace, Name: f.to},
		Spec:       *former.Spec.DeepCopy(),
	}
	for key, value := range former.Labels {
		next.Labels = withEntry(next.Labels, key, value)
	}
	next.Labels = withEntry(next.Labels, v1beta2.LabelRuntimeID, runtime)
	for key, value := range former.Annotations {
		switch key {
		case v1beta2.AnnotationHandOver, v1beta2.AnnotationMovedAway, corev1.LastAppliedConfigAnnotation:
		default:
			next.Annotations = withEntry(next.Annotations, key, value)
		}
	}
	if err := api.Create(ctx, next); err != nil {
		return nil, false, fmt.Errorf("create Kyma %s/%s: %w", next.Namespace, next.Name, err)
	}
	return next, true, nil
}

func (f *moveFlags) remove(ctx context.Context, api client.Client, kyma *v1beta2.Kyma, out io.Writer) error {
	name := kyma.Namespace + "/" + kyma.Name
	if f.keep {
		cli.Printf(out, "Kyma %s is kept; you can delete it at any time, and the runtime keeps its modules\n", name)
		return nil
	}
	// The publisher must record the handover before it processes the deletion. Otherwise, it would uninstall all
	// modules of the runtime.
	if err := f.waitUntil(ctx, "the publisher to release Kyma "+name, func() (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(kyma), kyma)
		return err != nil || handedOver(kyma), client.IgnoreNotFound(err)
	}); err != nil {
		return err
	}
	if err := client.IgnoreNotFound(api.Delete(ctx, kyma)); err != nil {
		return fmt.Errorf("delete Kyma %s: %w", name, err)
	}
	cli.Printf(out, "Kyma %s is deleted\n", name)
	return nil
}

func handedOver(kyma *v1beta2.Kyma) bool {
	s := kyma.Status.Runtime
	return s == nil || s.Key == nil && s.Published == nil ||
		s.Reasons != nil && s.Reasons.Publish == v1beta2.Reason(reason.RuntimeHandedOver)
}

func (f *moveFlags) waitUntil(ctx context.Context, goal string, isDone func() (bool, error)) error {
	waiting, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	for {
		if reached, err := isDone(); err != nil || reached {
			return err
		}
		if !pause.Sleep(waiting, time.Second) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("timed out after %s waiting for %s: check whether the publisher is running, and repeat "+
				"the command", f.patience, goal)
		}
	}
}

func withEntry(all map[string]string, key, value string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}
