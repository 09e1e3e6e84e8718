// Package command implements the command `kcp-publisher takeover`.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover"
)

// Host provides functions from the publisher's command line to the takeover commands.
type Host struct {
	// AddFlags adds the flags that select the control plane. AddPlanFlags adds the flags that affect the resolved
	// module versions.
	AddFlags, AddPlanFlags func(*pflag.FlagSet)
	// Complete adds shell completion for Kyma names to a command.
	Complete  func(*cobra.Command)
	Connect   func() (client.Client, error)
	Namespace func() string
	// Fleet reads the control plane's objects.
	Fleet func(context.Context, client.Reader) (plan.Fleet, error)
	// Maintenance reads the maintenance window policy. It calls remark with a message for each rule of the policy that has
	// no effect.
	Maintenance func(remark func(string)) (plan.Maintenance, error)
	NewTable    func(io.Writer) table.Writer
}

type takeoverFlags struct {
	Host
	selector, format string
	all, dryRun      bool
	isGone           bool
	// offered is the control plane's catalog. deadline is the time at which commands stop waiting for reports.
	offered  *catalog.Snapshot
	deadline time.Time
	timeout  time.Duration
}

// New returns the takeover command with its subcommands.
func New(host Host) *cobra.Command {
	f := &takeoverFlags{Host: host}
	cmd := cli.Group("takeover", "take over Kymas from lifecycle-manager, or return them",
		f.newPlan(), f.newStart(), f.newStatus(), f.newAbort(), f.newFinish())
	flags := cmd.PersistentFlags()
	f.AddFlags(flags)
	flags.StringVarP(&f.selector, "selector", "l", "", "select Kymas with matching labels")
	cli.RequireValues(flags, "selector")
	flags.BoolVar(&f.all, "all", false, "select all Kymas in the namespace")
	for _, step := range cmd.Commands() {
		f.Complete(step)
	}
	return cmd
}

func (f *takeoverFlags) newPlan() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan [KYMA...]", Short: "show a takeover's changes and blockers; without names, for all Kymas",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, plans, err := f.listPlans(cmd, args, true)
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), f.format, plans, func(out io.Writer) { f.drawPlans(out, plans) })
		},
	}
	f.planFlags(cmd)
	return cmd
}

func (f *takeoverFlags) planFlags(cmd *cobra.Command) {
	f.AddPlanFlags(cmd.Flags())
	cli.OutputFlag(cmd.Flags(), &f.format)
}

func (f *takeoverFlags) newStart() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start [KYMA...]",
		Short: "start the takeover of Kymas: the publisher adopts their modules at the installed versions",
		RunE: func(cmd *cobra.Command, args []string) error {
			kymas, plans, err := f.listPlans(cmd, args, false)
			if err != nil {
				return err
			}
			if f.dryRun {
				return cli.Print(cmd.OutOrStdout(), f.format, plans, func(out io.Writer) { f.drawPlans(out, plans) })
			}
			return f.forEach(cmd, kymas,
				func(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) ([]string, error) {
					at := slices.IndexFunc(plans, func(p takeover.Plan) bool { return p.Kyma == kyma.Name })
					switch phase := plans[at].Phase; {
					case phase != takeover.PhaseNone && phase != takeover.PhaseReturn &&
						phase != string(bundle.TakeoverAdopt):
						return nil, fmt.Errorf("the takeover is already in phase %s", phase)
					case len(plans[at].Obstacles) > 0:
						return nil, errors.New(strings.Join(plans[at].Obstacles, "; "))
					}
					return takeover.Start(ctx, api, kyma)
				})
		},
	}
	f.planFlags(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the plan and change nothing")
	return cmd
}

func (f *takeoverFlags) newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status [KYMA...]", Short: "show the progress of takeovers; without names, show all Kymas",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, kymas, err := f.selectKymas(cmd.Context(), args, true)
			if err != nil {
				return err
			}
			all := make([]takeover.Progress, 0, len(kymas))
			for i := range kymas {
				all = append(all, takeover.ProgressOf(&kymas[i]))
			}
			return cli.Print(cmd.OutOrStdout(), f.format, all, func(out io.Writer) { f.drawStandings(out, all) })
		},
	}
	cli.OutputFlag(cmd.Flags(), &f.format)
	return cmd
}

func (f *takeoverFlags) newAbort() *cobra.Command {
	cmd := &cobra.Command{
		Use: "abort [KYMA...]", Short: "return Kymas to lifecycle-manager; their modules stay installed",
		RunE: func(cmd *cobra.Command, args []string) error {
			api, kymas, err := f.selectKymas(cmd.Context(), args, false)
			if err != nil {
				return err
			}
			fleet, err := f.Fleet(cmd.Context(), api)
			if err != nil {
				return err
			}
			f.offered = fleet.Catalog
			return f.advancePhase(cmd, api, kymas, bundle.TakeoverRelease, f.giveBack)
		},
	}
	f.waitFlags(cmd)
	return cmd
}

func (f *takeoverFlags) newFinish() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "finish [KYMA...]",
		Short: "finish takeovers: remove lifecycle-manager's leftovers in the runtimes and in the control plane",
		RunE: func(cmd *cobra.Command, args []string) error {
			api, kymas, err := f.selectKymas(cmd.Context(), args, false)
			if err != nil {
				return err
			}
			return f.advancePhase(cmd, api, kymas, bundle.TakeoverClean, takeover.Finish)
		},
	}
	f.waitFlags(cmd)
	cmd.Flags().
		BoolVar(&f.isGone, "lifecycle-manager-is-gone", false,
			"after you uninstalled lifecycle-manager: also remove the labels that stop it from reconciling the Kymas")
	return cmd
}

func (f *takeoverFlags) waitFlags(cmd *cobra.Command) {
	cmd.Flags().
		DurationVar(&f.timeout, "timeout", 5*time.Minute,
			"maximum time to wait for the runtimes' reports; after a timeout, run the command again to continue")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the changes without making them")
	cli.OutputFlag(cmd.Flags(), &f.format)
}

func (f *takeoverFlags) listPlans(
	cmd *cobra.Command, args []string, allByDefault bool,
) ([]v1beta2.Kyma, []takeover.Plan, error) {
	maintenance, err := f.Maintenance(func(remark string) {
		cli.Printf(cmd.ErrOrStderr(), "--maintenance-policy: %s\n", remark)
	})
	if err != nil {
		return nil, nil, err
	}
	api, kymas, err := f.selectKymas(cmd.Context(), args, allByDefault)
	if err != nil {
		return nil, nil, err
	}
	l := takeover.Landscape{Rules: plan.Rules{Maintenance: maintenance}}
	if l.Fleet, err = f.Fleet(cmd.Context(), api); err != nil {
		return nil, nil, err
	}
	var manifests v1beta2.ManifestList
	if err := api.List(cmd.Context(), &manifests, client.InNamespace(f.Namespace())); err != nil {
		return nil, nil, fmt.Errorf("list lifecycle-manager's Manifests in %s: %w", f.Namespace(), err)
	}
	l.Manifests = manifests.Items
	return kymas, takeover.New(l, kymas, time.Now()), nil
}

// parseSelection checks the arguments and flags that select Kymas, and returns the label selector.
func (f *takeoverFlags) parseSelection(args []string, allByDefault bool) (labels.Selector, error) {
	ways := 0
	for _, isSet := range []bool{len(args) > 0, f.selector != "", f.all} {
		if isSet {
			ways++
		}
	}
	if ways > 1 || ways == 0 && !allByDefault {
		return nil, cli.Usage(errors.New("exactly one of Kyma names, --selector or --all is required"))
	}
	return cli.ParseSelector("--selector", f.selector)
}

// selectKymas connects to the control plane and returns the Kymas that the command's arguments and flags select, sorted
// by name. If the command has no such arguments or flags and allByDefault is true, selectKymas returns all Kymas. It
// reports wrong arguments before it connects.
func (f *takeoverFlags) selectKymas(
	ctx context.Context, args []string, allByDefault bool,
) (client.Client, []v1beta2.Kyma, error) {
	selector, err := f.parseSelection(args, allByDefault)
	if err != nil {
		return nil, nil, err
	}
	api, err := f.Connect()
	if err != nil {
		return nil, nil, err
	}
	var list v1beta2.KymaList
	if err := api.List(ctx, &list, client.InNamespace(f.Namespace()),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, nil, fmt.Errorf("list Kymas in %s: %w", f.Namespace(), err)
	}
	kymas := list.Items
	if len(args) > 0 {
		kymas = slices.DeleteFunc(kymas, func(k v1beta2.Kyma) bool { return !slices.Contains(args, k.Name) })
		for _, name := range args {
			if !slices.ContainsFunc(kymas, func(k v1beta2.Kyma) bool { return k.Name == name }) {
				return nil, nil, fmt.Errorf("Kyma %s/%s not found", f.Namespace(), name)
			}
		}
	}
	slices.SortFunc(kymas, func(a, b v1beta2.Kyma) int { return strings.Compare(a.Name, b.Name) })
	return api, kymas, nil
}
