package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	age "k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// trainFlags are the common flags of all train commands.
type trainFlags struct {
	controlPlane
	format string
}

func newTrain() *cobra.Command {
	f := &trainFlags{}
	cmd := cli.Group(
		"train",
		"show and perform promotions of PromotionPolicies",
		newTrainStatus(f),
		newTrainPromote(f),
	)
	f.add(cmd.PersistentFlags(), "the PromotionPolicies")
	return cmd
}

func newTrainStatus(f *trainFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [POLICY]",
		Short: "show the position of each version, and what it waits for",
		Long: "status shows what the publisher recorded in PromotionPolicies: the channel of each version, the time that\n" +
			"it has spent there, what it waits for, and when it is expected in the next channel.",
		Args: atMostOnePolicy,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := f.connect()
			if err != nil {
				return err
			}
			policies, err := f.policies(cmd.Context(), api, args)
			if err != nil {
				return err
			}
			now := time.Now()
			trains := make([]trainView, 0, len(policies))
			for i := range policies {
				trains = append(trains, viewTrain(&policies[i], now))
			}
			return cli.Print(cmd.OutOrStdout(), f.format, trains, func(out io.Writer) { drawTrains(out, trains) })
		},
	}
	cli.OutputFlag(cmd.Flags(), &f.format)
	f.addEverywhere(cmd.Flags())
	cli.Complete(cmd, f.policyNames)
	return cmd
}

func atMostOnePolicy(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return cli.Usage(fmt.Errorf("want at most the name of a PromotionPolicy, got %d arguments", len(args)))
	}
	return nil
}

// policies returns the PromotionPolicies, or the one that the arguments name, sorted by namespace and name.
func (f *trainFlags) policies(
	ctx context.Context,
	api client.Reader,
	args []string,
) ([]v1alpha1.PromotionPolicy, error) {
	var list v1alpha1.PromotionPolicyList
	if err := api.List(ctx, &list, client.InNamespace(f.scope())); err != nil {
		return nil, fmt.Errorf("list PromotionPolicies in %s: %w", f.namespace, err)
	}
	all := list.Items
	if len(args) == 1 {
		known := make([]string, len(all))
		for i := range all {
			known[i] = all[i].Name
		}
		all = slices.DeleteFunc(all, func(p v1alpha1.PromotionPolicy) bool { return p.Name != args[0] })
		if len(all) == 0 {
			return nil, fmt.Errorf(
				"PromotionPolicy %s: not found in %s%s",
				args[0],
				f.namespace,
				cli.Meant(args[0], known),
			)
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.PromotionPolicy) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return all, nil
}

// policyNames lists the PromotionPolicies.
func (f *trainFlags) policyNames(ctx context.Context, _ []string) ([]string, error) {
	var list v1alpha1.PromotionPolicyList
	if err := f.list(ctx, &list); err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}

// trainView is a policy in the output of `train status`.
type trainView struct {
	Namespace string `json:"namespace"`
	Policy    string `json:"policy"`
	Ready     bool   `json:"ready"`
	Message   string `json:"message,omitempty"`
	// Versions are the positions: each version of a module is in the last channel that has it.
	Versions []trainPosition `json:"versions"`
}

type trainPosition struct {
	Module  string    `json:"module"`
	Version string    `json:"version"`
	Channel string    `json:"channel"`
	Since   time.Time `json:"since"`
	// To is the next channel, empty in the last one.
	To      string              `json:"to,omitempty"`
	Reason  v1alpha1.WaitReason `json:"reason"`
	Message string              `json:"message,omitempty"`
	Arrival *time.Time          `json:"arrival,omitempty"`

	spent time.Duration
}

func viewTrain(p *v1alpha1.PromotionPolicy, now time.Time) trainView {
	view := trainView{
		Namespace: p.Namespace,
		Policy:    p.Name,
		Message:   "the publisher has not evaluated the policy",
		Versions:  []trainPosition{},
	}
	if ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		view.Ready, view.Message = ready.Status == metav1.ConditionTrue, ready.Message
		if ready.Reason == v1alpha1.PolicyEvaluated {
			view.Message = ""
		}
	}
	for _, m := range p.Status.Modules {
		for _, v := range m.Versions {
			if v.Reason == v1alpha1.WaitPromoted {
				continue
			}
			position := trainPosition{
				Module:  m.Name,
				Version: v.Version,
				Channel: v.Channel,
				Since:   v.Since.UTC(),
				Reason:  v.Reason,
				Message: v.Message,
				spent:   now.Sub(v.Since.Time),
			}
			for i, c := range p.Spec.Channels {
				if c.Name == v.Channel && i+1 < len(p.Spec.Channels) {
					position.To = p.Spec.Channels[i+1].Name
				}
			}
			if v.Arrival != nil {
				position.Arrival = new(v.Arrival.UTC())
			}
			view.Versions = append(view.Versions, position)
		}
	}
	return view
}

func drawTrains(out io.Writer, trains []trainView) {
	if len(trains) == 0 {
		fmt.Fprintln(out, "no promotion trains: create a PromotionPolicy")
		return
	}
	for _, one := range trains {
		if one.Message != "" {
			fmt.Fprintf(out, "policy %s: %s\n", one.Policy, one.Message)
		}
	}
	t := newTable(out)
	t.AppendHeader(
		table.Row{"POLICY", "MODULE", "VERSION", "CHANNEL", "FOR", "NEXT", "ARRIVAL", "STATE", "WAITS FOR"},
	)
	for _, one := range trains {
		for _, v := range one.Versions {
			arrival := ""
			if v.Arrival != nil {
				arrival = v.Arrival.Format(time.RFC3339)
			}
			t.AppendRow(
				table.Row{
					one.Policy,
					v.Module,
					v.Version,
					v.Channel,
					age.HumanDuration(v.spent),
					v.To,
					arrival,
					string(v.Reason),
					v.Message,
				},
			)
		}
	}
	t.Render()
}
