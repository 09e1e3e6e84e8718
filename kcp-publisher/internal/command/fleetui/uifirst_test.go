package fleetui

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestUIReadsUnhealthyRuntimesFirst(t *testing.T) {
	const sick = 7
	server := controlplanetest.New(t, 100, func(i int, kyma *v1beta2.Kyma) {
		if i == sick {
			kyma.Status.State, kyma.Status.Modules[0].State, kyma.Status.Runtime.HealthyUntil = v1beta2.StateError,
				v1beta2.StateError, nil
		}
	})
	api, table := server.Connect(t)
	f := &uiFlags{Flags: controlplane.Flags{Namespace: controlplane.DefaultNamespace}}
	var shown *fleet.Fleet
	if err := f.readFirst(t.Context(), table, api, func(first fleet.Fleet) { shown = &first }); err != nil {
		t.Fatal(err)
	}
	if shown == nil || shown.Summary.Total != 100 || shown.Summary.Health[fleet.Healthy] != 99 {
		t.Fatal("the shown fleet does not match the control plane")
	}
	if len(server.CompleteReads) != 1 || server.CompleteReads[0] != server.Kymas[sick].Name {
		t.Errorf("read Kymas %v, want only the unhealthy Kyma", server.CompleteReads)
	}

	// If the table is not sufficient, readFirst must not read any Kyma.
	server = controlplanetest.New(t, 100, func(_ int, kyma *v1beta2.Kyma) { kyma.Status.Runtime.HealthyUntil = nil })
	api, table = server.Connect(t)
	if err := f.readFirst(t.Context(), table, api,
		func(fleet.Fleet) { t.Error("an incomplete fleet was shown") }); err != nil ||
		len(server.CompleteReads) != 0 {
		t.Errorf("read Kymas %v, %v, want none", server.CompleteReads, err)
	}
}
