package command

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/preview"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	takeover "github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/command"
)

type takeoverHost struct {
	controlplane.Flags
	restricted  []string
	maintenance flagset.MaintenanceFlags
}

func newTakeover() *cobra.Command {
	h := &takeoverHost{}
	return takeover.New(takeover.Host{
		AddFlags: func(flags *pflag.FlagSet) { h.Add(flags, "the Kymas and of lifecycle-manager's Manifests") },
		AddPlanFlags: func(flags *pflag.FlagSet) {
			h.maintenance.Add(flags, flags)
			flagset.AddRestrictedFlag(flags, &h.restricted)
		},
		Complete:    func(cmd *cobra.Command) { controlplane.CompleteEach(cmd, h.KymaNames) },
		Connect:     h.Connect,
		Namespace:   func() string { return h.Namespace },
		Fleet:       h.fleet,
		Maintenance: h.maintenance.Maintenance,
		NewTable:    terminal.NewTable,
	})
}

func (h *takeoverHost) fleet(ctx context.Context, api client.Reader) (plan.Fleet, error) {
	all, err := preview.Read(ctx, api, h.Namespace)
	if err != nil {
		return plan.Fleet{}, err
	}
	fleet := plan.Fleet{Rollouts: all.Rollouts}
	for _, kyma := range all.Kymas {
		fleet.Kymas = append(fleet.Kymas, *kyma)
	}
	for _, p := range all.Policies {
		fleet.Policies = append(fleet.Policies, p)
	}
	var templates []v1beta2.ModuleTemplate
	for _, t := range all.Templates {
		templates = append(templates, t)
	}
	var metas []v1beta2.ModuleReleaseMeta
	for _, m := range all.Metas {
		metas = append(metas, m)
	}
	fleet.Catalog, err = catalog.New(templates, metas, h.restricted...)
	return fleet, err
}
