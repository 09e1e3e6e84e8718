package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	age "k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/uuid"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/reports"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/selection"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

const (
	checkRunPoll = 2 * time.Second
	endTimeout   = 10 * time.Second
)

const rolloutCheckHelp = `check reads the checks of a module from the RolloutPolicy of its channel, and requests that
the agent of one runtime runs each check once. The agent receives the request in its next signed bundle, and returns
the result in its signed report. Nothing changes in the runtime, and rollouts ignore the result. Each result is based on
one measurement, so thresholds do not apply. The agent does not start Jobs, so a check of kind job is Inconclusive.

The command exits with 1 unless all checks are Passed. To request the run, the command sets the annotation
` + v1beta2.AnnotationCheckRun + ` of the Kyma, which requires permission for the verb run-checks.
The command removes the annotation when it receives the result. After --timeout, the annotation stays, and --last shows
the result once it is reported.`

const rolloutCheckExamples = `  kcp-publisher rollout check berlin keda --location registry.example/fleet
  kcp-publisher rollout check berlin keda --wave canary --check latency --location registry.example/fleet
  kcp-publisher rollout check berlin keda --last --file berlin-report.json`

type rolloutCheckFlags struct {
	reports.ReportFlags
	wave    string
	names   []string
	timeout time.Duration
	last    bool
}

func newRolloutCheck(common *rolloutFlags) *cobra.Command {
	f := &rolloutCheckFlags{}
	cmd := &cobra.Command{
		Use: "check RUNTIME MODULE", Short: "run a RolloutPolicy's checks once in one runtime",
		Long:    rolloutCheckHelp,
		Example: rolloutCheckExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return cli.Usage(errors.New("expected two arguments: a runtime ID and a module"))
			case f.timeout < 0:
				return cli.Usage(fmt.Errorf("--timeout %s: must be at least 0", f.timeout))
			case f.last && (cmd.Flags().Changed("wave") || cmd.Flags().Changed("check") || cmd.Flags().Changed("timeout")):
				return cli.Usage(errors.New("--last cannot be combined with --wave, --check and --timeout, because it " +
					"does not request checks"))
			case f.File != "" && !f.last:
				return cli.Usage(errors.New("--file requires --last, because the file contains an earlier report"))
			}
			return f.CheckSource()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Flags = common.Flags
			return f.run(cmd, args[0], args[1])
		},
	}
	f.AddSource(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.wave, "wave", "", "only run this wave's checks; default: all waves' checks")
	flags.StringSliceVar(&f.names, "check", nil, "name of a check to run; default: all checks; can be repeated")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "maximum time to wait for the result; 0 does not wait")
	flags.BoolVar(&f.last, "last", false, "show the result in the runtime's latest report, without a new request")
	cli.RequireValues(flags, "wave", "check")
	cli.Complete(cmd, common.Runtimes, common.Modules)
	return cmd
}

func (f *rolloutCheckFlags) run(cmd *cobra.Command, runtime, module string) error {
	if f.last {
		report, err := f.Read(cmd, []string{runtime})
		if err != nil {
			return err
		}
		if run := report.CheckRun; run == nil || run.Module != module {
			return fmt.Errorf(
				"the report of runtime %s from %s has no check run of module %s: omit --last to request one",
				report.Runtime, report.Time.UTC().Format(time.RFC3339), module)
		}
		return f.show(cmd.OutOrStdout(), report)
	}
	api, err := f.Connect()
	if err != nil {
		return err
	}
	kyma, err := controlplane.FindKyma(cmd.Context(), api, f.Namespace, runtime)
	if err != nil {
		return err
	}
	one := selection.Target{ID: plan.RuntimeID(kyma), Kyma: kyma}
	run, err := f.request(cmd.Context(), api, kyma, module)
	if err != nil {
		return fmt.Errorf("runtime %s: %w", one.ID, err)
	}
	if _, err := one.Apply(cmd.Context(), api, actions.RunChecks(run)); err != nil {
		return err
	}
	cli.Printf(cmd.ErrOrStderr(), "requested %s of module %s in runtime %s\n",
		terminal.Pluralize(len(run.Checks), "check"), module, one.ID)
	if f.timeout == 0 {
		return nil
	}
	report, err := f.await(cmd, runtime, run.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), endTimeout)
	defer cancel()
	if _, err := one.Apply(ctx, api, actions.EndCheckRun(run.ID)); err != nil {
		cli.Printf(cmd.ErrOrStderr(), "failed to remove the request from the Kyma: %v\n", err)
	}
	return f.show(cmd.OutOrStdout(), report)
}

func (f *rolloutCheckFlags) request(
	ctx context.Context, api client.Reader, kyma *v1beta2.Kyma, module string,
) (bundle.CheckRun, error) {
	none := bundle.CheckRun{}
	if err := checkRunsChecks(kyma); err != nil {
		return none, err
	}
	at := slices.IndexFunc(kyma.Status.Modules, func(m v1beta2.ModuleStatus) bool { return m.Name == module })
	if at < 0 {
		return none,
			fmt.Errorf("Kyma %s/%s has no module %s%s", kyma.Namespace, kyma.Name, module,
				cli.ClosestNames(module, modulesOf(kyma)))
	}
	track := rollout.Track{Module: module, Channel: kyma.Status.Modules[at].Channel}
	var policies fleet.RolloutPolicyList
	if err := api.List(ctx, &policies, client.InNamespace(kyma.Namespace)); err != nil {
		return none, fmt.Errorf("list RolloutPolicies in %s: %w", kyma.Namespace, err)
	}
	policy := rollout.FindPolicy(policies.Items, track)
	if policy == nil {
		return none, fmt.Errorf("no RolloutPolicy covers module %s in channel %s", track.Module, track.Channel)
	}
	checks, err := findChecks(policy, f.wave, f.names)
	return bundle.CheckRun{ID: string(uuid.NewUUID()), Module: module, Checks: checks}, err
}

func checkRunsChecks(kyma *v1beta2.Kyma) error {
	r := kyma.Status.Runtime
	if r == nil || r.Observed == nil {
		return errors.New("the agent has not reported yet")
	}
	if !slices.Contains(r.Observed.Features, string(bundle.FeatureCheckRun)) {
		return fmt.Errorf("the agent does not support feature %s: upgrade the agent", bundle.FeatureCheckRun)
	}
	return nil
}

func modulesOf(kyma *v1beta2.Kyma) []string {
	names := make([]string, 0, len(kyma.Status.Modules))
	for _, m := range kyma.Status.Modules {
		names = append(names, m.Name)
	}
	return names
}

// findChecks returns the checks of one wave, or of all waves, sorted by name. If names is not empty, findChecks returns
// only the checks with these names.
func findChecks(policy *fleet.RolloutPolicy, wave string, names []string) ([]fleet.Check, error) {
	var all []fleet.Check
	known, where := wave == "", "RolloutPolicy "+policy.Name
	if wave != "" {
		where = fmt.Sprintf("wave %s of %s", wave, where)
	}
	for _, w := range policy.Spec.Waves {
		if wave != "" && w.Name != wave {
			continue
		}
		known = true
		for _, c := range w.Checks {
			at := slices.IndexFunc(all, func(other fleet.Check) bool { return other.Name == c.Name })
			switch {
			case at < 0:
				all = append(all, c)
			case !equality.Semantic.DeepEqual(all[at], c):
				return nil,
					fmt.Errorf("waves of RolloutPolicy %s define check %s differently: select one with --wave",
						policy.Name, c.Name)
			}
		}
	}
	if !known {
		return nil, fmt.Errorf("RolloutPolicy %s has no wave %s", policy.Name, wave)
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c fleet.Check) bool { return c.Name == name }) {
			return nil, fmt.Errorf("%s has no check %s", where, name)
		}
	}
	if len(names) > 0 {
		all = slices.DeleteFunc(all, func(c fleet.Check) bool { return !slices.Contains(names, c.Name) })
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no checks", where)
	}
	slices.SortFunc(all, func(a, b fleet.Check) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (f *rolloutCheckFlags) await(cmd *cobra.Command, runtime, id string) (report reports.Report, err error) {
	var problem error
	err = poll.PollUntilContextTimeout(
		cmd.Context(),
		checkRunPoll,
		f.timeout,
		false,
		func(context.Context) (bool, error) {
			report, problem = f.Read(cmd, []string{runtime})
			return problem == nil && report.CheckRun != nil && report.CheckRun.ID == id, nil
		},
	)
	switch {
	case err == nil:
		return report, nil
	case cmd.Context().Err() != nil:
		return report, cmd.Context().Err()
	case problem != nil:
		return report, problem
	}
	return report,
		fmt.Errorf("runtime %s reported no result within %s; the request remains: use --last to show its result",
			runtime, f.timeout)
}

func (f *rolloutCheckFlags) show(out io.Writer, report reports.Report) error {
	run := report.CheckRun
	if err := cli.Print(out, f.Format, run, func(out io.Writer) { drawCheckRun(out, report, time.Now()) }); err != nil {
		return err
	}
	if run.Problem != "" {
		return fmt.Errorf("runtime %s: %s", report.Runtime, run.Problem)
	}
	var open []string
	for _, c := range run.Checks {
		if c.Result != v1beta2.CheckPassed {
			open = append(open, fmt.Sprintf("%s is %s", c.Name, c.Result))
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("runtime %s: %s", report.Runtime, strings.Join(open, ", "))
	}
	return nil
}

func drawCheckRun(out io.Writer, report reports.Report, now time.Time) {
	run := report.CheckRun
	if run.Problem != "" {
		return
	}
	cli.Printf(out, "module %s %s in runtime %s, measured %s ago\n\n", run.Module, run.Version, report.Runtime,
		age.HumanDuration(now.Sub(run.Measured)))
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"CHECK", "RESULT", "VALUE", "MESSAGE"})
	for _, c := range run.Checks {
		t.AppendRow(table.Row{c.Name, c.Result, rollout.DescribeValues(c.Value, c.Before), c.Message})
	}
	t.Render()
}
