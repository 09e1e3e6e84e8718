// Package diff implements the command that previews a commit.
package diff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/preview"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/forecast"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

type diffFlags struct {
	controlplane.Flags
	from, format string
	prune        flagset.PruneFlags
	git          flagset.GitFlags
	restricted   []string
	selector     string
	maintenance  flagset.MaintenanceFlags
	exitCode     bool
}

// ErrDiffers is the result of diff --exit-code if the commit has an effect.
var ErrDiffers = errors.New("the commit changes the control plane or its fleet")

// New returns the command diff.
func New() *cobra.Command {
	f := &diffFlags{}
	cmd := &cobra.Command{
		Use: "diff", Short: "preview the effect of a commit on the control plane and its fleet",
		Args: cli.Exactly(0, "no arguments"),
		Long: "diff compares a commit or a folder with the control plane, and forecasts how the modules of each " +
			"runtime would change.\n" +
			"It changes nothing. It does not read components, and assumes that they are available.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "URL of a Git repository, or folder with YAML files")
	f.git.Add(flags)
	f.prune.Add(flags, flags)
	f.Add(flags, "Kymas, ModuleTemplates and ModuleReleaseMetas")
	flags.StringVar(&f.selector, "watch-label-selector", "",
		"only forecast for Kymas with matching labels; set the same selector as for run")
	f.maintenance.Add(flags, flags)
	flagset.AddRestrictedFlag(flags, &f.restricted)
	flags.BoolVar(&f.exitCode, "exit-code", false, "exit with 3 if the commit changes an object or a runtime")
	cli.OutputFlag(flags, &f.format)
	return cmd
}

func (f *diffFlags) run(cmd *cobra.Command) error {
	if f.from == "" {
		return cli.Usage(errors.New("--from is required"))
	}
	ctx := cmd.Context()
	maintenance, err := f.maintenance.Maintenance(func(remark string) {
		cli.Printf(cmd.ErrOrStderr(), "--maintenance-policy: %s\n", remark)
	})
	if err != nil {
		return err
	}
	pruning, err := f.prune.PruningLimits()
	if err != nil {
		return err
	}
	loaded, err := f.git.LoadObjects(ctx, "--from", f.from, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer loaded.Close()
	api, err := f.Connect()
	if err != nil {
		return err
	}
	d := preview.Difference{}
	if loaded.Source != nil {
		d.Commit = loaded.Source.Commit
	}
	control := follow.ControlPlane{Client: api, Reader: api, Namespace: f.Namespace, Pruning: pruning}
	survey, err := control.Survey(ctx, d.Commit, loaded.Objects)
	if err != nil {
		return fmt.Errorf("compare with the control plane: %w", err)
	}
	d.Objects = preview.ObjectChanges(survey)
	if survey.Plan.Held != nil {
		d.Held = survey.Plan.Held.Error()
	}
	if d.Forecast, err = f.forecast(ctx, api, loaded.Objects, survey.Plan.Prune, maintenance); err != nil {
		return err
	}
	if err := cli.Print(cmd.OutOrStdout(), f.format, d, d.Draw); err != nil {
		return err
	}
	if f.exitCode && d.IsAny() {
		return ErrDiffers
	}
	return nil
}

func (f *diffFlags) forecast(
	ctx context.Context, api client.Client, objects source.Objects, prune []follow.Key, maintenance plan.Maintenance,
) (forecast.Forecast, error) {
	before, err := preview.Read(ctx, api, f.Namespace)
	if err != nil {
		return forecast.Forecast{}, err
	}
	before.Restricted = f.restricted
	if before.Watched, err = flagset.NewShare(f.selector); err != nil {
		return forecast.Forecast{}, err
	}
	now, rules := time.Now(), plan.Rules{Maintenance: maintenance}
	was, err := before.Forecast(rules, now)
	if err != nil {
		return forecast.Forecast{}, err
	}
	is, err := before.AfterCommit(objects, prune, f.Namespace, now).Forecast(rules, now)
	if err != nil {
		return forecast.Forecast{}, err
	}
	return forecast.New(was, is, plan.RuntimeID, now)
}
