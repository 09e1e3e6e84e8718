package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const (
	// maxUnconfirmed is the maximum number of runtimes that a command changes without a confirmation.
	maxUnconfirmed = 10
	changedAtOnce  = 8
)

type targets struct {
	controlPlane
	selector    string
	all         bool
	health      []string
	dryRun, yes bool
}

type target struct {
	id   string
	kyma *v1beta2.Kyma
}

func (t *targets) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	t.controlPlane.add(flags, "the Kymas")
	flags.StringVarP(&t.selector, "selector", "l", "", "select the runtimes whose Kymas have matching labels")
	flags.BoolVar(&t.all, "all", false, "select all runtimes of the namespace")
	flags.StringSliceVar(&t.health, "health", nil,
		"select the runtimes with one of these health values, such as Failing,Silent")
	flags.BoolVar(&t.dryRun, "dry-run", false, "list the selected runtimes without changing them")
	flags.BoolVar(&t.yes, "yes", false, fmt.Sprintf("change more than %d runtimes without asking", maxUnconfirmed))
	cmd.Args = func(_ *cobra.Command, args []string) error { return t.check(args) }
	completeEach(cmd, t.runtimes)
	cli.CompleteFlag(cmd, "health", func(context.Context, []string) ([]string, error) { return healthNames(), nil })
}

func healthNames() []string {
	var names []string
	for _, h := range fleet.Healths() {
		names = append(names, string(h))
	}
	return names
}

func (t *targets) check(names []string) error {
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
	return checkHealth(t.health)
}

// checkHealth checks the values of --health.
func checkHealth(values []string) error {
	for _, h := range values {
		if !slices.Contains(healthNames(), h) {
			return cli.Usage(fmt.Errorf("--health %q: must be one of %s", h, strings.Join(healthNames(), ", ")))
		}
	}
	return nil
}

// findTargets returns the selected runtimes, sorted by ID. An empty selection is an error.
func (t *targets) findTargets(ctx context.Context, api client.Reader, names []string, now time.Time) ([]target, error) {
	if len(names) > 0 {
		return t.findNamed(ctx, api, names)
	}
	selector, err := cli.ParseSelector("--selector", t.selector)
	if err != nil {
		return nil, err
	}
	in, err := readInput(ctx, api, scope{namespace: t.namespace, selector: selector}, dividedRuntimes{})
	if err != nil {
		return nil, err
	}
	in.Now = now
	kymas := map[string]*v1beta2.Kyma{}
	for i := range in.Kymas {
		kymas[in.Kymas[i].Name] = &in.Kymas[i]
	}
	var found []target
	for _, r := range fleet.Assess(in).Runtimes {
		if len(t.health) == 0 || slices.Contains(t.health, string(r.Health)) {
			found = append(found, target{r.ID, kymas[r.Kyma]})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no runtimes in namespace %s match the selection", t.namespace)
	}
	return found, nil
}

func (t *targets) findNamed(ctx context.Context, api client.Reader, names []string) ([]target, error) {
	kymas, err := readKymas(ctx, api, scope{namespace: t.namespace})
	if err != nil {
		return nil, err
	}
	var found []target
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		kyma, err := chooseKyma(kymas, t.namespace, name)
		if err != nil {
			return nil, err
		}
		found = append(found, target{name, kyma})
	}
	return found, nil
}

// run calls change for each selected runtime. For more than maxUnconfirmed runtimes, it first asks for a confirmation.
// verb starts the question, such as "suspend 12 runtimes".
func (t *targets) run(
	cmd *cobra.Command, names []string, verb string,
	change func(context.Context, client.Client, target) (string, error),
) error {
	api, err := t.connect()
	if err != nil {
		return err
	}
	found, err := t.findTargets(cmd.Context(), api, names, time.Now())
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if t.dryRun {
		listSelected(out, verb, found)
		return nil
	}
	if len(found) > maxUnconfirmed {
		if err := confirm(cmd, t.yes,
			fmt.Sprintf("%s %s in namespace %s", verb, pluralize(len(found), "runtime"), t.namespace)); err != nil {
			return err
		}
	}
	return changeAll(cmd.Context(), out, found, func(ctx context.Context, one target) (string, error) {
		return change(ctx, api, one)
	})
}

func listSelected(out io.Writer, verb string, all []target) {
	for _, one := range all {
		cli.Printf(out, "%s runtime %s (dry run)\n", verb, one.id)
	}
	cli.Printf(out, "%s selected, nothing is changed\n", pluralize(len(all), "runtime"))
}

// changeAll calls change for each runtime and prints the results. For a single runtime, it returns the error of change.
func changeAll(
	ctx context.Context, out io.Writer, all []target, change func(context.Context, target) (string, error),
) error {
	if len(all) == 1 {
		result, err := change(ctx, all[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "runtime %s %s\n", all[0].id, result)
		return err
	}
	var lock sync.Mutex
	failed := 0
	var group errgroup.Group
	group.SetLimit(changedAtOnce)
	for _, one := range all {
		group.Go(func() error {
			result, err := change(ctx, one)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed++
				cli.Printf(out, "failed: %v\n", err)
				return nil
			}
			cli.Printf(out, "runtime %s %s\n", one.id, result)
			return nil
		})
	}
	_ = group.Wait() // failed counts the errors
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, pluralize(len(all), "runtime"))
	}
	cli.Printf(out, "%s changed\n", pluralize(len(all), "runtime"))
	return nil
}

func (t target) apply(ctx context.Context, api client.Client, action actions.Runtime) (string, error) {
	result, err := actions.Apply(ctx, api, client.ObjectKeyFromObject(t.kyma), "", action)
	if err != nil {
		return "", fmt.Errorf("runtime %s: %w", t.id, err)
	}
	return describeEffect(result), nil
}

func describeEffect(result actions.Result) string {
	if result.Unrecorded != nil {
		return result.Effect + " (not recorded: " + result.Unrecorded.Error() + ")"
	}
	return result.Effect
}
