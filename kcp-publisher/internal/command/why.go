package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/follow"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/plan"
)

func newWhy() *cobra.Command {
	var api controlPlane
	var format string
	var registry originFlags
	cmd := &cobra.Command{
		Use: "why RUNTIME-ID [MODULE]", Short: "says what keeps a runtime or module from being ready, and how old that knowledge is",
		Long: "why reads the Kyma in the control plane, and the Rollouts that may hold its modules. With --location and --trust it also reads the bundle that was published to the runtime, verifies\n" +
			"it, and says where each module comes from: component, content, bundle and the key that signed it.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return cli.Usage(errors.New("want a runtime id and, if you like, a module"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kymas, err := api.connect()
			if err != nil {
				return err
			}
			kyma, err := findKyma(cmd.Context(), kymas, api.namespace, args[0])
			if err != nil {
				return err
			}
			if err := noteHeld(cmd.Context(), kymas, kyma); err != nil {
				return err
			}
			module := ""
			if len(args) == 2 {
				module = args[1]
			}
			answer, err := explain(kyma, module, time.Now())
			if err != nil {
				return err
			}
			held, err := follow.WhyHeld(cmd.Context(), kymas, api.namespace)
			if err != nil {
				return err
			}
			answer.Cause = cmp.Or(held, answer.Cause)
			if answer.Origins, err = registry.origins(cmd.Context(), kyma, module); err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), format, answer, answer.draw)
		},
	}
	api.add(cmd.Flags(), "the Kymas")
	cli.OutputFlag(cmd.Flags(), &format)
	registry.add(cmd.Flags())
	return cmd
}

func findKyma(ctx context.Context, reader client.Reader, namespace, id string) (*v1beta2.Kyma, error) {
	var kymas v1beta2.KymaList
	if err := reader.List(ctx, &kymas, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Kymas in %s: %w", namespace, err)
	}
	if owner := plan.NewOwners(kymas.Items)[id]; owner != nil {
		return owner, nil
	}
	for i := range kymas.Items {
		if plan.RuntimeID(&kymas.Items[i]) == id {
			return &kymas.Items[i], nil
		}
	}
	return nil, fmt.Errorf("runtime %s: no Kyma in namespace %s has that runtime id or name", id, namespace)
}

// answer is what `why` says.
type answer struct {
	Runtime string        `json:"runtime"`
	State   v1beta2.State `json:"state"`
	// Cause is the first thing in the way, empty when nothing is.
	Cause string `json:"cause,omitempty"`
	// Age is how old the runtime's last report is that was noted, empty when it has never reported. Reports that say the same are noted
	// once a day. Unchanged says that the status calls the runtime reporting, so that later ones may have come. They have not where no
	// publisher runs: then nobody listens.
	Age       string `json:"age,omitempty"`
	Unchanged bool   `json:"unchanged,omitempty"`

	Modules []v1beta2.ModuleStatus `json:"modules"`
	// Origins are where the modules of the published bundle come from, when the registry was asked.
	Origins []bundle.Origin `json:"origins,omitempty"`
}

// noteHeld says of the Kyma's modules that a rollout holds which one it is. That is in no status: a rollout would else write those of the whole
// fleet.
func noteHeld(ctx context.Context, api client.Reader, kyma *v1beta2.Kyma) error {
	var rollouts v1alpha1.RolloutList
	err := api.List(ctx, &rollouts, client.InNamespace(kyma.Namespace))
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list Rollouts, which may hold modules: %w", err)
	}
	held := plan.Held(kyma, rollouts.Items)
	for i := range kyma.Status.Modules {
		if m := &kyma.Status.Modules[i]; m.Message == "" {
			m.Message = held[m.Name]
		}
	}
	return nil
}

// explain follows a bundle's way: published, accepted, reported, module by module; the first that fails is the cause.
func explain(kyma *v1beta2.Kyma, module string, now time.Time) (answer, error) {
	a := answer{Runtime: plan.RuntimeID(kyma), State: kyma.Status.State, Modules: []v1beta2.ModuleStatus{}}
	if r := kyma.Status.Runtime; r != nil && r.Observed != nil {
		a.Age = now.Sub(plan.Heard(kyma)).Round(time.Second).String()
		a.Unchanged = plan.Reports(kyma)
	}
	for _, m := range kyma.Status.Modules {
		if module == "" || m.Name == module {
			a.Modules = append(a.Modules, m)
		}
	}
	if module != "" && len(a.Modules) == 0 {
		return a, fmt.Errorf("runtime %s: module %s: nobody asks for it and it is not installed", a.Runtime, module)
	}
	for _, cause := range causes {
		if a.Cause = cause(kyma, a.Modules, module); a.Cause != "" {
			break
		}
	}
	return a, nil
}

// causes look for what is in the way, in the order of a bundle's way; the first that finds something names it. Each gets the modules that are
// asked about, and the name if it is only one.
var causes = []func(kyma *v1beta2.Kyma, modules []v1beta2.ModuleStatus, only string) string{
	notPublished, notInForce, moduleInTrouble, moduleWaits, moduleRemarks,
}

func notPublished(kyma *v1beta2.Kyma, _ []v1beta2.ModuleStatus, _ string) string {
	ready := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReady)
	switch {
	case ready == nil:
		return "the publisher has not looked at this Kyma yet: does it run?"
	case ready.Reason == v1beta2.ReasonPublishFailed:
		return ready.Message
	}
	return ""
}

func notInForce(kyma *v1beta2.Kyma, _ []v1beta2.ModuleStatus, _ string) string {
	for _, kind := range []string{v1beta2.ConditionAccepted, v1beta2.ConditionReporting, v1beta2.ConditionSynced, v1beta2.ConditionSecrets} {
		if c := meta.FindStatusCondition(kyma.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue && c.Message != "" {
			return c.Message
		}
	}
	return ""
}

func moduleInTrouble(_ *v1beta2.Kyma, modules []v1beta2.ModuleStatus, _ string) string {
	for _, m := range modules {
		if m.State != v1beta2.StateReady && m.State != v1beta2.StateUnmanaged {
			return fmt.Sprintf("module %s is %s: %s", m.Name, m.State, cmp.Or(m.Message, "no reason was reported"))
		}
	}
	return ""
}

func moduleWaits(_ *v1beta2.Kyma, modules []v1beta2.ModuleStatus, _ string) string {
	for _, m := range modules {
		if m.Maintenance {
			return fmt.Sprintf("module %s stays at version %s: %s", m.Name, m.Version, m.Message)
		}
	}
	return ""
}

// moduleRemarks is of a module that is asked about by name: it is ready, and still there is something to say.
func moduleRemarks(_ *v1beta2.Kyma, modules []v1beta2.ModuleStatus, only string) string {
	for _, m := range modules {
		if only != "" && m.State == v1beta2.StateReady && m.Message != "" {
			return fmt.Sprintf("module %s is Ready in version %s: %s", m.Name, m.Version, m.Message)
		}
	}
	return ""
}

func (a answer) draw(out io.Writer) {
	fmt.Fprintf(out, "runtime %s is %s\n", a.Runtime, cmp.Or(string(a.State), "unknown"))
	fmt.Fprintf(out, "  because    %s\n", cmp.Or(a.Cause, "nothing is in its way"))
	fmt.Fprintf(out, "  last word  %s\n\n", a.lastWord())
	t := newTable(out)
	t.AppendHeader(table.Row{"MODULE", "CHANNEL", "VERSION", "STATE", "MESSAGE"})
	for _, m := range a.Modules {
		t.AppendRow(table.Row{m.Name, m.Channel, m.Version, m.State, m.Message})
	}
	t.Render()
	drawOrigins(out, a.Origins)
}

func (a answer) lastWord() string {
	switch {
	case a.Age == "":
		return "never"
	case a.Unchanged:
		return "noted " + a.Age + " ago; nothing new was noted since"
	}
	return a.Age + " ago"
}
