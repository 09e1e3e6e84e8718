package kindscenario

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/kind"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestRuntimeOnSeparateNetworkUsesImportedFiles(t *testing.T) {
	startScenario(t)
	ctx := t.Context()
	ship, err := stage.fleet.AddCarried(ctx, airGappedRuntime, "regular", "oci-layout:"+kind.Layout,
		[]string{"--import-folder=" + kind.Carried}, samplemodule.Module)
	must(t, err)
	for runtime, want := range map[string]bool{stage.berlin.ID: true, ship.ID: false} {
		if reaches, err := stage.kind.Reaches(ctx, runtime); err != nil || reaches != want {
			t.Fatalf("%s can reach the registry: got %t and error %v, want false", runtime, reaches, err)
		}
	}
	until(t, "the runtime's bundle is published", func() (bool, string) {
		record, err := ship.Record(ctx)
		published := err == nil && record.Status.Runtime != nil && record.Status.Runtime.Published != nil
		return published && record.Status.Runtime.Published.Versions[samplemodule.Module] == stage.promoted,
			fmt.Sprintf("%v %+v", err, record.Status.Runtime)
	})
	carry := func() error {
		file, err := stage.kind.Export(ctx, stage.fleet, ship.ID)
		if err != nil {
			return err
		}
		return stage.kind.Carry(ctx, ship.ID, file)
	}
	must(t, carry())
	untilRunning(t, ship, promotedImage())
	untilReconciled(t, ship)
	drift(t, ship)
	// The first report requests a certificate. The control plane then publishes a bundle with the certificate and
	// waits for a report about that bundle.
	until(t, "the control plane shows the module from the imported reports", func() (bool, string) {
		if err := errors.Join(stage.kind.Report(ctx, stage.fleet, ship.ID), carry()); err != nil {
			return false, err.Error()
		}
		record, err := ship.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, m := range record.Status.Modules {
			if m.Name == samplemodule.Module && m.Version == stage.promoted && m.State == v1beta2.StateReady {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", record.Status.Modules)
	})
}
