package status

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/published"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// NewWhy returns the command why.
func NewWhy() *cobra.Command {
	var api controlplane.Flags
	var format string
	var registry published.Flags
	cmd := &cobra.Command{
		Use: "why RUNTIME [MODULE]", Short: "explain why a runtime or module is not ready",
		Long: "why reads the Kyma in the control plane, and the Rollouts that can hold its modules. With --location " +
			"and --trust, it also reads\n" +
			"and verifies the runtime's published bundle, and shows the origin of each module: component, content, " +
			"bundle and signing key.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return cli.Usage(errors.New("expected a runtime ID and optionally a module"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kymas, err := api.Connect()
			if err != nil {
				return err
			}
			kyma, err := controlplane.FindKyma(cmd.Context(), kymas, api.Namespace, args[0])
			if err != nil {
				return err
			}
			rollouts, err := controlplane.ReadRollouts(cmd.Context(), kymas, kyma.Namespace)
			if err != nil {
				return err
			}
			module := ""
			if len(args) == 2 {
				module = args[1]
			}
			answer, err := explainRuntime(kyma, module, rollouts, time.Now())
			if err != nil {
				return err
			}
			var whole fleet.Input
			if err := controlplane.ReadCircumstances(cmd.Context(), kymas, api.Namespace, &whole); err != nil {
				return err
			}
			if whole.Held != "" {
				answer.addHeld(fleet.HeldCause(whole.Held))
			}
			if ends := fleet.RootExpiryWarning(whole.RootExpires, time.Now()); ends != nil {
				answer.Warnings = append(answer.Warnings, *ends)
			}
			answer.Warnings = append(answer.Warnings, fleet.PolicyWarnings(whole)...)
			leftOut, err := controlplane.ReadLeftOut(cmd.Context(), kymas, api.Namespace)
			if err != nil {
				return err
			}
			answer.Warnings = append(answer.Warnings, fleet.LeftOutWarnings(leftOut)...)
			if answer.Origins, err = registry.ReadOrigins(cmd.Context(), kyma, module); err != nil {
				return err
			}
			if module != "" {
				if answer.Trains, err = incomingTo(cmd.Context(), kymas, kyma, module); err != nil {
					return err
				}
			} else {
				chain, err := registry.ReadChain(cmd.Context(), kyma)
				if err != nil {
					return err
				}
				answer.Bundles = fleet.Timeline(kyma, chain)
			}
			return cli.Print(cmd.OutOrStdout(), format, answer, answer.draw)
		},
	}
	api.Add(cmd.Flags(), "the Kymas")
	cli.Complete(cmd, api.Runtimes, api.Modules)
	cli.OutputFlag(cmd.Flags(), &format)
	registry.Add(cmd.Flags())
	return cmd
}

type explanation struct {
	Runtime string        `json:"runtime"`
	State   v1beta2.State `json:"state"`
	Health  fleet.Health  `json:"health"`
	// Cause is the most urgent problem, or empty. Advice describes the fix. Since is the start of the problem, if
	// known.
	Cause     string          `json:"cause,omitempty"`
	Situation fleet.Situation `json:"situation,omitempty"`
	Advice    string          `json:"advice,omitempty"`
	Since     *time.Time      `json:"since,omitempty"`
	// SetBy is the field manager that suspended the runtime, or empty.
	SetBy string `json:"setBy,omitempty"`
	// Age is the time since the last recorded report, or empty. Unchanged is true if the runtime has sent the same
	// content since then.
	Age       string `json:"age,omitempty"`
	Unchanged bool   `json:"unchanged,omitempty"`

	// Warnings are problems that affect all runtimes.
	Warnings []fleet.Cause `json:"warnings,omitempty"`

	Modules []v1beta2.ModuleStatus `json:"modules"`
	// Checks are the reported results of the checks that the module's rollout requires. If no module is selected,
	// Checks contains all modules' checks that have not Passed.
	Checks  []moduleCheck  `json:"checks,omitempty"`
	Bundles []fleet.Bundle `json:"bundles,omitempty"`
	// Origins are the origins of the published bundle's modules.
	Origins []bundle.Origin `json:"origins,omitempty"`
	// Trains are the versions that promotion trains will promote to the module's channel.
	Trains []comingVersion `json:"trains,omitempty"`
}

func requestedModules(r fleet.Runtime) []string {
	names := make([]string, len(r.Modules))
	for i := range r.Modules {
		names[i] = r.Modules[i].Name
	}
	return names
}

func explainRuntime(kyma *v1beta2.Kyma, module string, rollouts fleet.Rollouts, now time.Time) (explanation, error) {
	var runtime fleet.Runtime
	if module == "" {
		runtime = fleet.Judge(kyma, rollouts, now)
	} else {
		var known bool
		if runtime, known = fleet.JudgeModule(kyma, module, rollouts, now); !known {
			return explanation{},
				fmt.Errorf("runtime %s: module %s is not requested and not installed%s", plan.RuntimeID(kyma), module,
					cli.ClosestNames(module, requestedModules(fleet.Judge(kyma, rollouts, now))))
		}
	}
	a := explanation{
		Runtime: runtime.ID, State: runtime.State, Health: runtime.Health, Since: runtime.Since,
		Unchanged: runtime.Reporting, Modules: []v1beta2.ModuleStatus{},
	}
	if runtime.Health == fleet.Suspended {
		a.SetBy, _ = fleet.SuspendedBy(kyma)
	}
	if runtime.LastReport != nil {
		a.Age = now.Sub(*runtime.LastReport).Round(time.Second).String()
	}
	if runtime.Cause != nil {
		a.addCause(*runtime.Cause)
	}
	held := map[string]string{}
	for _, m := range runtime.Modules {
		held[m.Name] = m.Held
	}
	for _, m := range kyma.Status.Modules {
		if module == "" || m.Name == module {
			m.Message = cmp.Or(m.Message, held[m.Name])
			a.Modules = append(a.Modules, m)
		}
	}
	a.Checks = moduleChecks(kyma, module)
	return a, nil
}

func (a *explanation) addCause(cause fleet.Cause) {
	a.Cause, a.Situation, a.Advice = cause.Message, cause.Situation, cause.Advice
}

// addHeld adds a held Git commit. If the runtime has its own problem, this problem stays the cause, because Health and
// Since belong to it, and the held commit becomes a warning.
func (a *explanation) addHeld(held fleet.Cause) {
	if a.Cause == "" {
		a.addCause(held)
		return
	}
	a.Warnings = append(a.Warnings, held)
}

func (a explanation) draw(out io.Writer) {
	palette := cli.NewPalette(out)
	for _, w := range a.Warnings {
		cli.Printf(out, "%s: %s; fix: %s\n", palette.Paint(cli.Yellow, "warning"), w.Message, w.Advice)
	}
	cli.Printf(out, "runtime %s is %s\n", a.Runtime, a.stateText(palette))
	cli.Printf(out, "  cause      %s\n", cmp.Or(a.Cause, "none"))
	if a.Advice != "" {
		cli.Printf(out, "  fix        %s\n", a.Advice)
	}
	cli.Printf(out, "  report     %s\n\n", a.reportAge())
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"MODULE", "CHANNEL", "VERSION", "STATE", "MESSAGE"})
	for _, m := range a.Modules {
		t.AppendRow(table.Row{
			m.Name, m.Channel, m.Version, terminal.Painted(string(m.State), terminal.ColorOfState(m.State), palette), m.Message,
		})
	}
	t.Render()
	drawChecks(out, a.Checks, palette)
	drawComing(out, a.Trains)
	drawBundles(out, a.Bundles)
	published.DrawOrigins(out, a.Origins)
}

func (a explanation) stateText(palette cli.Palette) string {
	state := cmp.Or(string(a.State), "unknown")
	if a.Health != fleet.Suspended {
		return palette.Paint(terminal.HealthColor(a.Health), state)
	}
	text := palette.Paint(terminal.HealthColor(a.Health), string(a.Health))
	if a.Since != nil {
		text += " since " + a.Since.UTC().Format(time.RFC3339)
	}
	if a.SetBy != "" {
		text += ", by " + a.SetBy
	}
	return text + "; its state was " + state
}

func (a explanation) reportAge() string {
	switch {
	case a.Age == "":
		return "never"
	case a.Unchanged:
		return "recorded " + a.Age + " ago; " + recordedDaily
	}
	return a.Age + " ago"
}

const recordedDaily = "unchanged reports are recorded once a day"
