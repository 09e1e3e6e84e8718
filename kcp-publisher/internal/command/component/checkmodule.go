package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/internal/checks/probe"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
)

type checkModuleFlags struct {
	component    componentCommand
	cluster      cli.Cluster
	names        []string
	before       map[string]string
	interval     time.Duration
	measurements int
}

// NewCheckModule returns the command check-module.
func NewCheckModule() *cobra.Command {
	f := &checkModuleFlags{}
	cmd := &cobra.Command{
		Use:   "check-module FILE|NAME:VERSION",
		Short: "run a module's checks in a runtime and show each measurement",
		Args:  cli.Exactly(1, "FILE or NAME:VERSION"),
		Long: "check-module runs the checks that a module ships against the runtime of the kubeconfig, as the agent " +
			"does. It reads the checks\n" +
			"from a YAML file, or from the resource \"" + bundle.ContentChecks +
			"\" of a component version, and prints one line per measurement.\n" +
			"It stops once every check is Passed or Failed, and exits with 1 unless all checks are Passed.\n" +
			"It changes nothing in the runtime, except that a check with a Job runs the Job.",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	f.cluster.AddFlags(flags, "the runtime")
	f.component.add(cmd)
	flags.StringSliceVar(&f.names, "check", nil, "name of a check to run; default: all checks; can be repeated")
	flags.StringToStringVar(&f.before, "before", nil,
		"value of a promql check before the upgrade, as CHECK=VALUE; can be repeated")
	flags.DurationVar(&f.interval, "interval", 0,
		"time between two measurements of a check; 0 uses the interval that the check defines")
	flags.IntVar(&f.measurements, "measurements", 20,
		"number of measurements after which a check without a result is Inconclusive")
	cli.RequireValues(flags, "check")
	return cmd
}

func (f *checkModuleFlags) run(cmd *cobra.Command, argument string) error {
	if f.interval < 0 || f.measurements < 1 {
		return cli.Usage(errors.New("--interval must be 0 or more, and --measurements must be 1 or more"))
	}
	subject := probe.Subject{Module: argument}
	shipped, err := f.readChecks(cmd, argument)
	if err != nil {
		return err
	}
	if err := checks.Validate(shipped, field.NewPath("checks")); err != nil {
		return fmt.Errorf("%s: %s: %s", argument, err.Field, err.Detail)
	}
	if shipped, err = f.selectChecks(argument, shipped); err != nil {
		return err
	}
	config, err := f.cluster.Config()
	if err != nil {
		return err
	}
	prober, err := probe.New(probe.Options{Config: config})
	if err != nil {
		return err
	}
	measure := func(ctx context.Context, d checks.Definition, before string) checks.Measurement {
		return prober.Measure(ctx, subject, d, before)
	}
	return f.measureAll(cmd.Context(), cmd.OutOrStdout(), checks.Define(shipped, nil, ""), measure)
}

func (f *checkModuleFlags) selectChecks(module string, shipped []fleet.Check) ([]fleet.Check, error) {
	for _, name := range slices.Concat(f.names, slices.Sorted(maps.Keys(f.before))) {
		if !slices.ContainsFunc(shipped, func(c fleet.Check) bool { return c.Name == name }) {
			return nil, cli.Usage(fmt.Errorf("%s has no check %s", module, name))
		}
	}
	return slices.DeleteFunc(shipped, func(c fleet.Check) bool {
		return len(f.names) > 0 && !slices.Contains(f.names, c.Name)
	}), nil
}

// readChecks reads a module's checks. The argument is the path of a file, or a component version as NAME:VERSION.
func (f *checkModuleFlags) readChecks(cmd *cobra.Command, argument string) (shipped []fleet.Check, err error) {
	if _, missing := os.Stat(argument); missing == nil || !strings.Contains(argument, ":") {
		file, err := os.Open(argument)
		if err != nil {
			return nil, fmt.Errorf("expected a file with checks, or COMPONENT:VERSION: %w", err)
		}
		// Read one byte more than the limit, so that checks.ParseShipped returns an error for a file above the limit.
		data, err := io.ReadAll(io.LimitReader(file, checks.MaxShippedBytes+1))
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		if shipped, err = checks.ParseShipped(data); err != nil {
			return nil, fmt.Errorf("%s: not a file with checks: %w", argument, err)
		}
		return shipped, nil
	}
	err = f.component.withComponent(
		cmd,
		argument,
		func(ctx context.Context, opened *flagset.OpenedComponents, _ *store.Registries, found component.Component) error {
			resources := found.Descriptor.Resources
			at := slices.IndexFunc(resources, func(r ocm.Resource) bool { return r.Name == bundle.ContentChecks })
			if at < 0 {
				return fmt.Errorf("component %s ships no checks: it has no resource %q", argument, bundle.ContentChecks)
			}
			data, err := opened.Reader.Bytes(ctx, found, resources[at])
			if err != nil {
				return err
			}
			shipped, err = checks.ParseShipped(data)
			return err
		},
	)
	return shipped, err
}

// measureAll runs the checks and prints each measurement. Its error lists the checks that did not pass.
func (f *checkModuleFlags) measureAll(
	ctx context.Context, out io.Writer, definitions []checks.Definition,
	measure func(context.Context, checks.Definition, string) checks.Measurement,
) error {
	states := checks.Continue(definitions, nil)
	for i := range states {
		states[i].Before = f.before[states[i].Name]
	}
	nextAt := make([]time.Time, len(states))
	for {
		next := -1
		for i, s := range states {
			open := (s.Result == "" || s.Result == v1beta2.CheckInconclusive) && countMeasured(s) < f.measurements
			if open && (next < 0 || nextAt[i].Before(nextAt[next])) {
				next = i
			}
		}
		if next < 0 {
			return printVerdict(out, states)
		}
		if !pause.Sleep(ctx, time.Until(nextAt[next])) {
			return ctx.Err()
		}
		d := definitions[next]
		started := time.Now()
		m := measure(ctx, d, states[next].Before)
		states[next] = checks.Next(d, states[next], m, started)
		nextAt[next] = started.Add(d.Interval.Duration)
		if f.interval > 0 {
			nextAt[next] = started.Add(f.interval)
		}
		line := fmt.Sprintf("%s  %-7s  %-12s  %s  %s", d.Name, m.Verdict, states[next].Result, m.Value, m.Message)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

func countMeasured(s checks.State) int { return int(s.Passes) + int(s.Failures) + int(s.Unknowns) }

func printVerdict(out io.Writer, states []checks.State) error {
	var open []string
	for _, s := range states {
		if s.Result != v1beta2.CheckPassed {
			open = append(open, fmt.Sprintf("%s is %s", s.Name, s.Result))
		}
	}
	if len(open) > 0 {
		return errors.New(strings.Join(open, ", "))
	}
	cli.Printf(out, "all %d checks passed\n", len(states))
	return nil
}
