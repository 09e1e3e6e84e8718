// Package status implements the commands that show the health of a fleet, and the cause of a runtime's problem.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/published"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/selection"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

type statusFlags struct {
	controlplane.Flags
	runtimeFilter
	selector, format string
	all, watch       bool
	exitCode         bool
	registry         published.Flags
}

// New returns the command status.
func New() *cobra.Command {
	f := &statusFlags{}
	cmd := &cobra.Command{
		Use: "status [RUNTIME]", Short: "show fleet health and the most urgent problems",
		Long: "status reads the Kymas of the control plane. It counts the runtimes by health, explains the problems " +
			"of unhealthy runtimes, and lists active rollouts\n" +
			"and runtimes. In a large fleet, healthy runtimes are only listed with --all or a filter.\n" +
			"With RUNTIME, it shows the modules of one runtime, its most urgent problem with the fix, and its last " +
			"bundles.\nWith --location and --trust, it also verifies those bundles in the registry and shows their " +
			"signers and commits.\n\n" +
			"With --exit-code, the exit code is 3 if a selected runtime is Failing, Silent or NeverReported. " +
			"Otherwise, the exit code\ndoes not depend on health.",
		Example: "  kcp-publisher status --failing\n  kcp-publisher status --module scaler --version 1.7.0 -o name\n " +
			" kcp-publisher status -l kyma-project.io/region=eu -w",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage(fmt.Errorf("expected at most one runtime ID, got %d arguments", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.runtime = args[0]
			}
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	f.Add(flags, "the Kymas")
	f.AddEverywhere(flags)
	f.add(flags)
	flags.StringVarP(&f.selector, "selector", "l", "",
		"label selector of Kymas; only show and count the matching runtimes")
	flags.BoolVar(&f.all, "all", false, "also list the healthy runtimes in a large fleet")
	flags.BoolVarP(&f.watch, "watch", "w", false, "keep watching, and print a line for each change to a runtime")
	flags.BoolVar(&f.exitCode, "exit-code", false,
		"exit with 3 if a selected runtime is Failing, Silent or NeverReported")
	cli.RequireValues(flags, "selector", "health")
	f.registry.Add(flags)
	cli.OutputFlag(flags, &f.format, formatWide, formatName)
	cli.Complete(cmd, f.Runtimes)
	cli.CompleteFlag(cmd, "module", f.Modules)
	cli.CompleteFlag(cmd, "version", f.Versions)
	cli.CompleteFlag(cmd, "health", func(context.Context, []string) ([]string, error) {
		return selection.HealthNames(), nil
	})
	cmd.SuggestFor = []string{"get", "list", "describe"}
	return cmd
}

const (
	formatWide = "wide"
	formatName = "name"
)

// ErrUnhealthy is the result of status --exit-code if a runtime needs attention.
var ErrUnhealthy = errors.New("runtimes need attention")

// ErrNoRuntimes is the result of status --exit-code if no runtimes match the namespace and the label selector. With
// exit code 0, a typo would look like a healthy fleet.
var ErrNoRuntimes = errors.New("--exit-code: no runtimes to check: correct --namespace or --selector")

func (f *statusFlags) run(cmd *cobra.Command) error {
	selector, err := cli.ParseSelector("--selector", f.selector)
	switch {
	case err != nil:
		return err
	case f.watch && !slices.Contains([]string{"table", formatWide, "json"}, f.format):
		return cli.Usage(fmt.Errorf("--watch does not support -o %s: use table, wide or json", f.format))
	case f.watch && f.exitCode:
		return cli.Usage(errors.New("--exit-code cannot be combined with --watch, which does not end"))
	}
	if err := selection.CheckHealth(f.selectedHealth()); err != nil {
		return err
	}
	asked, err := f.registry.IsSet()
	switch {
	case err != nil:
		return err
	case asked && (f.runtime == "" || f.watch):
		return cli.Usage(errors.New("--location requires one RUNTIME and no --watch"))
	case f.watch:
		return f.follow(cmd, selector)
	}
	in, err := f.read(cmd.Context(), selector)
	if err != nil {
		return err
	}
	in.Now = time.Now()
	whole := fleet.Assess(in)
	if err := f.checkModuleExists(whole.Modules); err != nil {
		return err
	}
	if err := f.addBundles(cmd.Context(), in.Kymas, whole.Runtimes); err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), whole)
}

func (f *statusFlags) checkModuleExists(all []fleet.Module) error {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	if f.module == "" || slices.Contains(names, f.module) {
		return nil
	}
	return fmt.Errorf("--module %s is not in any channel or runtime in %s%s", f.module, f.DescribeNamespace(),
		cli.ClosestNames(f.module, names))
}

func (f *statusFlags) addBundles(ctx context.Context, kymas []v1beta2.Kyma, all []fleet.Runtime) error {
	for i := range all {
		r := &all[i]
		if f.runtime == "" || !f.matches(r) {
			continue
		}
		at := slices.IndexFunc(kymas, func(k v1beta2.Kyma) bool {
			return k.Namespace == r.Namespace && k.Name == r.Kyma
		})
		chain, err := f.registry.ReadChain(ctx, &kymas[at])
		if err != nil {
			return err
		}
		r.Bundles = fleet.Timeline(&kymas[at], chain)
	}
	return nil
}

func (f *statusFlags) print(out io.Writer, whole fleet.Fleet) error {
	if _, err := f.selectRuntime(whole.Runtimes); err != nil {
		return err
	}
	selected := f.filterRuntimes(whole.Runtimes)
	if f.runtime != "" && len(selected) == 0 {
		names := make([]string, 0, 2*len(whole.Runtimes))
		for i := range whole.Runtimes {
			names = append(names, whole.Runtimes[i].ID, whole.Runtimes[i].Kyma)
		}
		return controlplane.UnknownRuntime(f.runtime, f.DescribeNamespace(), names)
	}
	v := statusView{
		Fleet: whole, selected: selected, filter: f.runtimeFilter, width: cli.Width(out), isUntruncated: !cli.IsTerminal(out),
		palette: cli.NewPalette(out), wide: f.format == formatWide, all: f.all, everywhere: f.Everywhere,
		where:    f.DescribeNamespace(),
		selector: f.selector,
	}
	if err := f.show(out, v); err != nil {
		return err
	}
	if f.exitCode && whole.Summary.Total == 0 {
		return ErrNoRuntimes
	}
	if f.exitCode && slices.ContainsFunc(selected, func(r fleet.Runtime) bool { return r.Health.NeedsAttention() }) {
		return ErrUnhealthy
	}
	return nil
}

func (f *statusFlags) show(out io.Writer, v statusView) error {
	one := f.runtime != "" && len(v.selected) == 1
	switch f.format {
	case formatName:
		for _, r := range v.selected {
			cli.Printf(out, "kyma.%s/%s\n", v1beta2.Group, r.Kyma)
		}
		return nil
	case "table", formatWide:
		if one {
			v.drawRuntime(out, v.selected[0])
			drawBundles(out, v.selected[0].Bundles)
		} else {
			v.draw(out)
		}
		return nil
	}
	if one {
		return cli.Print(out, f.format, v.selected[0], nil)
	}
	v.Runtimes = v.selected
	return cli.Print(out, f.format, v.Fleet, nil)
}
