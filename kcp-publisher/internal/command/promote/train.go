package promote

import (
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	age "k8s.io/apimachinery/pkg/util/duration"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

// NewTrain returns the command train.
func NewTrain() *cobra.Command {
	f := &trainFlags{}
	cmd := cli.Group("train", "show and perform promotions from PromotionPolicies", newTrainStatus(f), newTrainPromote(f))
	f.Add(cmd.PersistentFlags(), "the PromotionPolicies")
	return cmd
}

func newTrainStatus(f *trainFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [POLICY]",
		Short: "show each version's channel and the conditions for its promotion",
		Long: "status shows the state that the publisher records in PromotionPolicies: the channel of each version, " +
			"how long the version\n" +
			"has been in the channel, the unmet conditions for its promotion, and its expected arrival in the next " +
			"channel.",
		Args: atMostOnePolicy, SuggestFor: []string{"get", "list", "show", "describe"},
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := f.Connect()
			if err != nil {
				return err
			}
			policies, err := f.policies(cmd.Context(), api, args)
			if err != nil {
				return err
			}
			trains := make([]train.View, 0, len(policies))
			for i := range policies {
				trains = append(trains, train.NewView(&policies[i]))
			}
			return cli.Print(cmd.OutOrStdout(), f.format, trains, func(out io.Writer) {
				drawTrains(out, trains, time.Now())
			})
		},
	}
	cli.OutputFlag(cmd.Flags(), &f.format)
	f.AddEverywhere(cmd.Flags())
	cli.Complete(cmd, f.policyNames)
	return cmd
}

func drawTrains(out io.Writer, trains []train.View, now time.Time) {
	if len(trains) == 0 {
		fmt.Fprintln(out, "no promotion trains: create a PromotionPolicy")
		return
	}
	for _, one := range trains {
		if one.Message != "" {
			cli.Printf(out, "policy %s: %s\n", one.Policy, one.Message)
		}
	}
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"POLICY", "MODULE", "VERSION", "CHANNEL", "FOR", "NEXT", "ARRIVAL", "STATE", "WAITS FOR"})
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
					age.HumanDuration(now.Sub(v.Since)),
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
