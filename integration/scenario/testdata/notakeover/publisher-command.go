// Package command contains stubs for the publisher's package takeover/command. A test builds the publisher with them.
package command

import (
	"context"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

type Host struct {
	AddFlags, AddPlanFlags func(*pflag.FlagSet)
	Complete               func(*cobra.Command)
	Connect                func() (client.Client, error)
	Namespace              func() string
	Fleet                  func(context.Context, client.Reader) (plan.Fleet, error)
	Maintenance            func(remark func(string)) (plan.Maintenance, error)
	NewTable               func(io.Writer) table.Writer
}

func New(Host) *cobra.Command { return &cobra.Command{Use: "no-takeover", Hidden: true} }
