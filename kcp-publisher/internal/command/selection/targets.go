// Package selection selects the runtimes that a command changes, asks for confirmation, and changes them.
package selection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// MaxUnconfirmed is the maximum number of runtimes that a command changes without confirmation.
const MaxUnconfirmed = 10

// Targets selects runtimes by ID or Kyma name, by labels or by health.
type Targets struct {
	controlplane.Flags
	selector    string
	all         bool
	health      []string
	DryRun, Yes bool
}

// Target is one selected runtime.
type Target struct {
	ID   string
	Kyma *v1beta2.Kyma
}

// Add adds the flags, the check of the arguments, and their completion.
func (t *Targets) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	t.Flags.Add(flags, "the Kymas")
	flags.StringVarP(&t.selector, "selector", "l", "", "select the runtimes whose Kymas have matching labels")
	flags.BoolVar(&t.all, "all", false, "select all runtimes in the namespace")
	flags.StringSliceVar(&t.health, "health", nil,
		"select the runtimes with one of these health values, such as Failing,Silent")
	flags.BoolVar(&t.DryRun, "dry-run", false, "list the selected runtimes without changing them")
	flags.BoolVar(&t.Yes, "yes", false, fmt.Sprintf("change more than %d runtimes without asking", MaxUnconfirmed))
	cli.RequireValues(flags, "selector", "health")
	cmd.Args = func(_ *cobra.Command, args []string) error { return t.Check(args) }
	controlplane.CompleteEach(cmd, t.Runtimes)
	cli.CompleteFlag(cmd, "health", func(context.Context, []string) ([]string, error) { return HealthNames(), nil })
}

// HealthNames lists the health values.
func HealthNames() []string {
	var names []string
	for _, h := range fleet.Healths() {
		names = append(names, string(h))
	}
	return names
}

// Check returns a usage error if the flags and names do not select runtimes.
func (t *Targets) Check(names []string) error {
	byFlag := t.selector != "" || len(t.health) > 0
	switch {
	case len(names) > 0 && (t.all || byFlag):
		return cli.Usage(
			errors.New("runtime IDs cannot be combined with --selector, --health or --all"))
	case t.all && byFlag:
		return cli.Usage(errors.New("--all cannot be combined with --selector or --health"))
	case len(names) == 0 && !t.all && !byFlag:
		return cli.Usage(errors.New("no runtimes selected: specify runtime IDs, or set --selector, --health or --all"))
	}
	if _, err := cli.ParseSelector("--selector", t.selector); err != nil {
		return err
	}
	return CheckHealth(t.health)
}

// CheckHealth checks the values of --health.
func CheckHealth(values []string) error {
	for _, h := range values {
		if !slices.Contains(HealthNames(), h) {
			return cli.Usage(fmt.Errorf("--health %q: must be one of %s", h, strings.Join(HealthNames(), ", ")))
		}
	}
	return nil
}

// FindTargets returns the selected runtimes, sorted by ID. An empty selection is an error.
func (t *Targets) FindTargets(ctx context.Context, api client.Reader, names []string, now time.Time) ([]Target, error) {
	if len(names) > 0 {
		return t.findNamed(ctx, api, names)
	}
	selector, err := cli.ParseSelector("--selector", t.selector)
	if err != nil {
		return nil, err
	}
	of := controlplane.KymaSelector{Namespace: t.Namespace, Selector: selector}
	in, err := controlplane.ReadInput(ctx, api, of, controlplane.DividedRuntimes{})
	if err != nil {
		return nil, err
	}
	in.Now = now
	kymas := map[string]*v1beta2.Kyma{}
	for i := range in.Kymas {
		kymas[in.Kymas[i].Name] = &in.Kymas[i]
	}
	var found []Target
	for _, r := range fleet.Assess(in).Runtimes {
		if len(t.health) == 0 || slices.Contains(t.health, string(r.Health)) {
			found = append(found, Target{r.ID, kymas[r.Kyma]})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no runtimes in namespace %s match the selection", t.Namespace)
	}
	return found, nil
}

func (t *Targets) findNamed(ctx context.Context, api client.Reader, names []string) ([]Target, error) {
	kymas, err := controlplane.ReadKymas(ctx, api, controlplane.KymaSelector{Namespace: t.Namespace})
	if err != nil {
		return nil, err
	}
	var found []Target
	for _, name := range names {
		kyma, err := controlplane.ChooseKyma(kymas, t.Namespace, name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(found, func(t Target) bool { return t.Kyma == kyma }) {
			found = append(found, Target{plan.RuntimeID(kyma), kyma})
		}
	}
	slices.SortFunc(found, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Kyma.Name, b.Kyma.Name))
	})
	return found, nil
}

// Run selects runtimes as Select does, and calls change for each of them.
func (t *Targets) Run(
	cmd *cobra.Command, names []string, verb string,
	change func(context.Context, client.Client, Target) (string, error),
) error {
	api, found, err := t.Select(cmd, names, verb)
	if err != nil || len(found) == 0 {
		return err
	}
	return changeAll(cmd, verb, found, func(ctx context.Context, one Target) (string, error) {
		return change(ctx, api, one)
	})
}

func changeAll(
	cmd *cobra.Command, verb string, all []Target, change func(context.Context, Target) (string, error),
) error {
	ctx, progress := cmd.Context(), NewProgress(cmd, verb, len(all))
	ForEach(ctx, all, func(one Target) {
		if result, err := change(ctx, one); err != nil {
			progress.Fail(err)
		} else {
			progress.Done(one, result)
		}
	})
	return progress.End(ctx)
}

// Select returns the selected runtimes. If more than MaxUnconfirmed runtimes are selected, it first asks for
// confirmation. With --dry-run, it only lists the runtimes, and returns no targets. verb is the first
// word of the question, such as "suspend" in "suspend 12 runtimes".
func (t *Targets) Select(cmd *cobra.Command, names []string, verb string) (client.Client, []Target, error) {
	api, err := t.Connect()
	if err != nil {
		return nil, nil, err
	}
	found, err := t.FindTargets(cmd.Context(), api, names, time.Now())
	if err != nil {
		return nil, nil, err
	}
	if t.DryRun {
		listSelected(cmd.OutOrStdout(), verb, found)
		return api, nil, nil
	}
	if len(found) > MaxUnconfirmed {
		question := fmt.Sprintf("%s %s in namespace %s", verb, terminal.Pluralize(len(found), "runtime"), t.Namespace)
		if err := terminal.Confirm(cmd, t.Yes, question); err != nil {
			return nil, nil, err
		}
	}
	return api, found, nil
}

func listSelected(out io.Writer, verb string, all []Target) {
	for _, one := range all {
		cli.Printf(out, "%s runtime %s (dry run)\n", verb, one.ID)
	}
	cli.Printf(out, "%s selected, nothing is changed\n", terminal.Pluralize(len(all), "runtime"))
}

// Apply changes the Kyma of the runtime, and describes the effect.
func (t Target) Apply(ctx context.Context, api client.Client, action actions.Runtime) (string, error) {
	result, err := actions.Apply(ctx, api, client.ObjectKeyFromObject(t.Kyma), "", action)
	if err != nil {
		return "", fmt.Errorf("runtime %s: %w", t.ID, err)
	}
	return DescribeEffect(result), nil
}

// DescribeEffect describes the result of an action.
func DescribeEffect(result actions.Result) string {
	if result.Unrecorded != nil {
		return result.Effect + " (not recorded: " + result.Unrecorded.Error() + ")"
	}
	return result.Effect
}
