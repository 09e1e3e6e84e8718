package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover"
)

type step struct {
	Kyma string   `json:"kyma"`
	Done []string `json:"done,omitempty"`
	// Refused is the reason why the command was not completed for the Kyma, or empty.
	Refused string `json:"refused,omitempty"`
}

// takeoverStep changes a Kyma and returns messages about its changes.
type takeoverStep func(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) ([]string, error)

// forEach runs a step for each Kyma and prints the results. It continues with the next Kyma after a failure.
func (f *takeoverFlags) forEach(cmd *cobra.Command, kymas []v1beta2.Kyma, run takeoverStep) error {
	api, err := f.Connect()
	if err != nil {
		return err
	}
	steps := make([]step, 0, len(kymas))
	refused := 0
	for i := range kymas {
		s := f.runOne(cmd.Context(), api, kymas[i].Name, run)
		if s.Refused != "" {
			refused++
		}
		steps = append(steps, s)
	}
	if err := cli.Print(cmd.OutOrStdout(), f.format, steps, func(out io.Writer) { drawSteps(out, steps) }); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("the command failed for %d of %d Kymas, see the reasons above: run it again to "+
			"continue", refused,
			len(kymas))
	}
	return nil
}

// runOne reads a Kyma and runs a step for it. It retries after a conflict, because the publisher also writes the Kyma.
func (f *takeoverFlags) runOne(ctx context.Context, api client.Client, name string, run takeoverStep) step {
	s := step{Kyma: name}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		kyma := &v1beta2.Kyma{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: f.Namespace(), Name: name}, kyma); err != nil {
			return fmt.Errorf("read Kyma %s/%s: %w", f.Namespace(), name, err)
		}
		done, err := run(ctx, api, kyma)
		s.Done = append(s.Done, done...)
		return err
	})
	if err != nil {
		s.Refused = err.Error()
	}
	return s
}

// advancePhase requests the phase clean or release from the Kymas' runtimes, waits for their reports, and calls finish
// for each Kyma. If the command is interrupted, it can be run again.
func (f *takeoverFlags) advancePhase(
	cmd *cobra.Command, api client.Client, kymas []v1beta2.Kyma, phase bundle.TakeoverPhase, finish takeoverStep,
) error {
	f.deadline = time.Now().Add(f.timeout)
	asked := map[string]error{}
	for i := range kymas {
		s := f.runOne(
			cmd.Context(),
			api,
			kymas[i].Name,
			func(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) ([]string, error) {
				return nil, f.requestPhase(ctx, api, kyma, phase)
			},
		)
		if s.Refused != "" {
			asked[kymas[i].Name] = errors.New(s.Refused)
		}
	}
	return f.forEach(cmd, kymas, func(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) ([]string, error) {
		if f.isGone && takeover.Phase(kyma) == takeover.PhaseNone {
			return f.removeFinalizers(ctx, api)
		}
		if err := asked[kyma.Name]; err != nil {
			return nil, err
		}
		if takeover.Phase(kyma) == takeover.PhaseFinished {
			return f.unlabel(ctx, api, kyma)
		}
		if f.dryRun {
			return []string{
				fmt.Sprintf(
					"would request phase %s from the runtime, and complete it in the control plane after the "+
						"runtime's report",
					phase),
			}, nil
		}
		if err := f.awaitPhase(ctx, api, kyma, phase); err != nil {
			return nil, err
		}
		removed := takeover.ProgressOf(kyma).Removed
		done, err := finish(ctx, api, kyma)
		if phase == bundle.TakeoverClean && err == nil {
			done = append(inRuntime(removed), append(done, f.kubeconfigs(ctx, api, kyma)...)...)
			if f.isGone {
				more, err := f.unlabel(ctx, api, kyma)
				return append(done, more...), err
			}
		}
		return done, err
	})
}

// requestPhase requests a phase from a Kyma's runtime if necessary. It returns an error if the current phase does not
// allow the requested one.
func (f *takeoverFlags) requestPhase(
	ctx context.Context, api client.Client, kyma *v1beta2.Kyma, phase bundle.TakeoverPhase,
) error {
	switch is := takeover.Phase(kyma); {
	case is == string(phase), is == takeover.PhaseFinished && phase == bundle.TakeoverClean:
		return nil
	case is == takeover.PhaseReturn && phase == bundle.TakeoverRelease:
		return nil
	case is == takeover.PhaseReturn:
		return errors.New("the Kyma is being returned to lifecycle-manager: run `takeover abort`")
	case is == takeover.PhaseNone:
		return errors.New("the takeover has not started: run `takeover start`")
	case is == takeover.PhaseFinished:
		return errors.New("the takeover is finished and cannot be undone")
	case is == string(bundle.TakeoverClean):
		return errors.New("leftovers in the runtime are being removed, which cannot be undone: run `takeover finish`")
	case is == string(bundle.TakeoverRelease):
		return errors.New("the runtime is returning its modules to lifecycle-manager: run `takeover abort`")
	case phase == bundle.TakeoverRelease && takeover.IsUntouched(kyma):
		return nil
	}
	switch phase {
	case bundle.TakeoverClean:
		if why := takeover.UnreadyReason(kyma); why != "" {
			return errors.New(why)
		}
	case bundle.TakeoverRelease:
		if err := takeover.CheckReturn(ctx, api, kyma, f.offered); err != nil {
			return err
		}
	}
	if f.dryRun {
		return nil
	}
	return takeover.SetPhase(ctx, api, kyma, phase)
}

func (f *takeoverFlags) awaitPhase(
	ctx context.Context, api client.Client, kyma *v1beta2.Kyma, phase bundle.TakeoverPhase,
) error {
	for !takeover.HasCompleted(kyma, phase) {
		if phase == bundle.TakeoverRelease &&
			(takeover.IsUntouched(kyma) || takeover.Phase(kyma) == takeover.PhaseReturn) {
			return nil
		}
		if time.Now().After(f.deadline) {
			return fmt.Errorf("phase %s: %s", phase, takeover.ProgressOf(kyma).Next)
		}
		if err := readAgain(ctx, api, kyma); err != nil {
			return err
		}
	}
	return nil
}

// giveBack returns a Kyma to lifecycle-manager and waits until lifecycle-manager has updated the Kyma's Manifests.
func (f *takeoverFlags) giveBack(
	ctx context.Context, api client.Client, kyma *v1beta2.Kyma,
) (done []string, err error) {
	for {
		more, err := takeover.GiveBack(ctx, api, kyma, f.offered)
		done = append(done, more...)
		var behind *takeover.BehindError
		if !errors.As(err, &behind) || time.Now().After(f.deadline) {
			return done, err
		}
		if err := readAgain(ctx, api, kyma); err != nil {
			return done, err
		}
	}
}

func readAgain(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) error {
	const pollEvery = 500 * time.Millisecond
	if !pause.Sleep(ctx, pollEvery) {
		return ctx.Err()
	}
	if err := api.Get(ctx, client.ObjectKeyFromObject(kyma), kyma); err != nil {
		return fmt.Errorf("read Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	return nil
}

// unlabel removes the takeover labels from a Kyma if the flag --lifecycle-manager-is-gone is set.
func (f *takeoverFlags) unlabel(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) ([]string, error) {
	switch {
	case !f.isGone:
		return []string{"already taken over; its labels still suspend lifecycle-manager"}, nil
	case f.dryRun:
		return []string{"would remove its labels"}, nil
	}
	done, err := takeover.Unfinalize(ctx, api, f.Namespace())
	if err != nil {
		return done, err
	}
	more, err := takeover.Unlabel(ctx, api, kyma)
	return append(done, more...), err
}

// removeFinalizers removes lifecycle-manager's remaining finalizers from objects in the namespace. It must be called
// after the Kymas' takeover labels were removed.
func (f *takeoverFlags) removeFinalizers(ctx context.Context, api client.Client) ([]string, error) {
	if f.dryRun {
		return nil, nil
	}
	done, err := takeover.Unfinalize(ctx, api, f.Namespace())
	return append(done, "nothing else to remove"), err
}

func inRuntime(removed []string) (done []string) {
	for _, name := range removed {
		done = append(done, "removed in the runtime: "+name+"")
	}
	return done
}

// kubeconfigs returns messages about the Secrets with the runtime's kubeconfig, which other programs may still need.
func (f *takeoverFlags) kubeconfigs(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) (named []string) {
	var secrets corev1.SecretList
	err := api.List(ctx, &secrets, client.InNamespace(kyma.Namespace),
		client.MatchingLabels{v1beta2.LabelKymaName: kyma.Name})
	if err != nil {
		return []string{
			fmt.Sprintf("could not list the Secrets with the runtime's kubeconfig, delete them manually: %v", err),
		}
	}
	for i := range secrets.Items {
		named = append(named,
			fmt.Sprintf("Secret %s/%s was kept: delete it if no other program needs the runtime's kubeconfig",
				secrets.Items[i].Namespace, secrets.Items[i].Name))
	}
	return named
}

func drawSteps(out io.Writer, steps []step) {
	for _, s := range steps {
		fmt.Fprintln(out, bundle.PrintableLine(s.Kyma))
		for _, line := range s.Done {
			fmt.Fprintln(out, "  "+bundle.PrintableLine(line))
		}
		if s.Refused != "" {
			fmt.Fprintln(out, "  refused: "+bundle.PrintableLine(s.Refused))
		}
	}
}

func (f *takeoverFlags) drawPlans(out io.Writer, plans []takeover.Plan) {
	t := f.NewTable(out)
	t.AppendHeader(table.Row{"KYMA", "PHASE", "MODULE", "CHANNEL", "INSTALLED", "THEN", "NOTE"})
	for _, p := range plans {
		if len(p.Modules) == 0 {
			t.AppendRow(table.Row{p.Kyma, p.Phase, "-", "", "", "", ""})
		}
		for _, m := range p.Modules {
			t.AppendRow(table.Row{p.Kyma, p.Phase, m.Name, m.Channel, m.Installed, m.Then, m.Note})
		}
	}
	t.Render()
	for _, p := range plans {
		if len(p.Obstacles)+len(p.Remarks)+len(p.Removes) == 0 {
			continue
		}
		cli.Printf(out, "\n%s\n", bundle.PrintableLine(p.Kyma))
		for _, line := range p.Obstacles {
			fmt.Fprintln(out, "  blocked by: "+bundle.PrintableLine(line))
		}
		for _, line := range p.Remarks {
			fmt.Fprintln(out, "  "+bundle.PrintableLine(line))
		}
		if len(p.Removes) > 0 {
			fmt.Fprintln(out, "  finish removes "+bundle.PrintableLine(strings.Join(p.Removes, ", ")))
		}
	}
}

func (f *takeoverFlags) drawStandings(out io.Writer, all []takeover.Progress) {
	t := f.NewTable(out)
	t.AppendHeader(table.Row{"KYMA", "PHASE", "STATE", "ADOPTED", "NEXT"})
	for _, s := range all {
		t.AppendRow(
			table.Row{
				s.Kyma, s.Phase, s.State, fmt.Sprintf("%d/%d", len(s.Adopted), len(s.Adopted)+len(s.Waiting)), s.Next,
			},
		)
	}
	t.Render()
}
