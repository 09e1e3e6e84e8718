package command

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	takeover "github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/command"
)

type takeoverHost struct {
	controlPlane
	restricted  []string
	maintenance maintenanceFlags
}

func newTakeover() *cobra.Command {
	h := &takeoverHost{}
	return takeover.New(takeover.Host{
		AddFlags: func(flags *pflag.FlagSet) { h.add(flags, "the Kymas and of lifecycle-manager's Manifests") },
		AddPlanFlags: func(flags *pflag.FlagSet) {
			h.maintenance.add(flags, flags)
			restrictedFlag(flags, &h.restricted)
		},
		Complete:    func(cmd *cobra.Command) { completeEach(cmd, h.kymaNames) },
		Connect:     h.connect,
		Namespace:   func() string { return h.namespace },
		Fleet:       h.fleet,
		Maintenance: h.maintenance.maintenance,
		NewTable:    newTable,
	})
}

func (h *takeoverHost) fleet(ctx context.Context, api client.Reader) (plan.Fleet, error) {
	all, err := readFleet(ctx, api, h.namespace)
	if err != nil {
		return plan.Fleet{}, err
	}
	fleet := plan.Fleet{Rollouts: all.rollouts}
	for _, kyma := range all.kymas {
		fleet.Kymas = append(fleet.Kymas, *kyma)
	}
	for _, p := range all.policies {
		fleet.Policies = append(fleet.Policies, p)
	}
	var templates []v1beta2.ModuleTemplate
	for _, t := range all.templates {
		templates = append(templates, t)
	}
	var metas []v1beta2.ModuleReleaseMeta
	for _, m := range all.metas {
		metas = append(metas, m)
	}
	fleet.Catalog, err = catalog.New(templates, metas, h.restricted...)
	return fleet, err
}
