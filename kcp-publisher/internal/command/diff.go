package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/forecast"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

type diffFlags struct {
	controlPlane
	from, format string
	prune        pruneFlags
	git          gitFlags
	restricted   []string
	selector     string
	maintenance  maintenanceFlags
	exitCode     bool
}

var errDiffers = errors.New("the commit changes the control plane or its fleet")

func newDiff() *cobra.Command {
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
	f.git.add(flags)
	f.prune.add(flags, flags)
	f.add(flags, "Kymas, ModuleTemplates and ModuleReleaseMetas")
	flags.StringVar(&f.selector, "watch-label-selector", "",
		"only forecast for Kymas with matching labels; set the same selector as for run")
	f.maintenance.add(flags, flags)
	restrictedFlag(flags, &f.restricted)
	flags.BoolVar(&f.exitCode, "exit-code", false, "exit with 3 if the commit changes an object or a runtime")
	cli.OutputFlag(flags, &f.format)
	return cmd
}

func (f *diffFlags) run(cmd *cobra.Command) error {
	if f.from == "" {
		return cli.Usage(errors.New("--from is required"))
	}
	ctx := cmd.Context()
	maintenance, err := f.maintenance.maintenance(func(remark string) {
		cli.Printf(cmd.ErrOrStderr(), "--maintenance-policy: %s\n", remark)
	})
	if err != nil {
		return err
	}
	pruning, err := f.prune.pruningLimits()
	if err != nil {
		return err
	}
	loaded, err := f.git.loadObjects(ctx, "--from", f.from, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer loaded.close()
	api, err := f.connect()
	if err != nil {
		return err
	}
	d := fleetDifference{}
	if loaded.source != nil {
		d.Commit = loaded.source.Commit
	}
	follower := &follow.Follower{Client: api, Reader: api, Namespace: f.namespace, Pruning: pruning}
	survey, err := follower.Survey(ctx, d.Commit, loaded.objects)
	if err != nil {
		return fmt.Errorf("compare with the control plane: %w", err)
	}
	d.Objects = objectChanges(survey)
	if survey.Plan.Held != nil {
		d.Held = survey.Plan.Held.Error()
	}
	if d.Forecast, err = f.forecast(ctx, api, loaded.objects, survey.Plan.Prune, maintenance); err != nil {
		return err
	}
	if err := cli.Print(cmd.OutOrStdout(), f.format, d, d.draw); err != nil {
		return err
	}
	if f.exitCode && d.isAny() {
		return errDiffers
	}
	return nil
}

func (f *diffFlags) forecast(
	ctx context.Context, api client.Client, objects source.Objects, prune []follow.Key, maintenance plan.Maintenance,
) (forecast.Forecast, error) {
	before, err := readFleet(ctx, api, f.namespace)
	if err != nil {
		return forecast.Forecast{}, err
	}
	before.restricted = f.restricted
	if before.watched, err = newShare(f.selector); err != nil {
		return forecast.Forecast{}, err
	}
	now, rules := time.Now(), plan.Rules{Maintenance: maintenance}
	was, err := before.previewFleet(rules, now)
	if err != nil {
		return forecast.Forecast{}, err
	}
	is, err := before.afterCommit(objects, prune, f.namespace, now).previewFleet(rules, now)
	if err != nil {
		return forecast.Forecast{}, err
	}
	return forecast.New(was, is, plan.RuntimeID, now)
}

type fleetDifference struct {
	// Commit is the hash of the compared commit, or empty for a folder.
	Commit  string         `json:"commit,omitempty"`
	Objects []objectChange `json:"objects"`
	// Held is the reason why the publisher would wait for an operator's approval before it applies the commit. It is
	// empty if no approval is required.
	Held string `json:"held,omitempty"`
	forecast.Forecast
}

func (d fleetDifference) isAny() bool {
	return len(d.Objects) > 0 || d.Held != "" || d.Changed > 0 || len(d.CreatedRuntimes) > 0 || len(d.Leaving) > 0
}

type objectChange struct {
	Action string `json:"action"` // create, change or prune
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Place  string `json:"place,omitempty"`
}

func objectChanges(s follow.Survey) []objectChange {
	changes := []objectChange{}
	for _, w := range s.Plan.Apply {
		action := "change"
		if s.Live[follow.KeyOf(&w.Object)] == nil {
			action = "create"
		}
		changes = append(changes, objectChange{action, w.Object.GetKind(), w.Object.GetName(), w.Place})
	}
	for _, key := range s.Plan.Prune {
		changes = append(changes, objectChange{Action: "prune", Kind: key.Kind.Kind, Name: key.Name})
	}
	return changes
}

// maxNamed is the maximum number of runtimes that one line lists by name.
const maxNamed = 5

func (d fleetDifference) draw(out io.Writer) {
	if d.Commit != "" {
		cli.Printf(out, "commit %s\n", d.Commit)
	}
	if len(d.Objects) == 0 {
		fmt.Fprintln(out, "no objects differ from the control plane")
	}
	for _, o := range d.Objects {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-6s  %s %s  %s", o.Action, o.Kind, o.Name, o.Place), " "))
	}
	if d.Held != "" {
		cli.Printf(out, "  held    until an operator allows the commit, because it %s\n", d.Held)
	}
	for _, w := range d.Warnings {
		cli.Printf(out, "  warning %s\n", w)
	}
	for _, r := range d.Rollouts {
		cli.Printf(out, "  begin   Rollout %s by policy %s: %s\n", r.Name, r.Policy, describeWaves(r))
	}
	cli.Printf(out, "\n%d of %d runtimes would change%s\n", d.Changed, d.Runtimes, d.describeWaiting())
	if len(d.CreatedRuntimes) > 0 {
		cli.Printf(out, "  %d would be added: %s\n", len(d.CreatedRuntimes), joinRuntimes(d.CreatedRuntimes))
	}
	if len(d.Leaving) > 0 {
		cli.Printf(out, "  %d would be removed with all their modules: %s\n", len(d.Leaving), joinRuntimes(d.Leaving))
	}
	if len(d.Changes) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newTable(out)
	t.AppendHeader(table.Row{"MODULE", "CHANNEL", "FROM", "TO", "RUNTIMES", "HELD"})
	for _, c := range d.Changes {
		to := cmp.Or(c.To, "-")
		if isWaiting(c) {
			to = "unchanged"
		}
		t.AppendRow(table.Row{
			c.Module, cmp.Or(c.Channel, "-"), cmp.Or(c.From, "-"), to,
			fmt.Sprintf("%d: %s", len(c.Runtimes), joinRuntimes(c.Runtimes)), c.Held,
		})
	}
	t.Render()
}

// isWaiting reports whether the runtimes of a change keep their version for now.
func isWaiting(c forecast.Change) bool { return c.Held != "" && c.To == c.From }

// describeWaiting returns the number of runtimes whose changes all wait, as the end of a sentence.
func (d fleetDifference) describeWaiting() string {
	now, waiting := map[string]bool{}, map[string]bool{}
	for _, c := range d.Changes {
		for _, runtime := range c.Runtimes {
			if isWaiting(c) {
				waiting[runtime] = true
			} else {
				now[runtime] = true
			}
		}
	}
	for runtime := range now {
		delete(waiting, runtime)
	}
	if len(waiting) == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them later", len(waiting))
}

func describeWaves(r forecast.Rollout) string {
	var waves []string
	for _, w := range r.Waves {
		text := fmt.Sprintf("%s %d", w.Name, w.Runtimes)
		if w.Approval {
			text += " after approval"
		}
		waves = append(waves, text)
	}
	return strings.Join(waves, ", ")
}

func joinRuntimes(runtimes []string) string {
	if len(runtimes) <= maxNamed {
		return strings.Join(runtimes, ", ")
	}
	return strings.Join(runtimes[:maxNamed], ", ") + ", …"
}
