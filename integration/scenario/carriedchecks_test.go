package scenario

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// Operators carry the bundles and reports of the runtime "ship" as files. The next wave contains a connected runtime.
func TestImportedReportOfFailedCheckTriggersRollback(t *testing.T) {
	ctx := t.Context()
	v := newAirGappedFleet(t, fleet.Options{})
	f := v.Fleet
	cellar := store.LayoutScheme + v.file("cellar")
	must(t, os.Mkdir(v.file("cellar"), 0o700))
	ship, err := f.AddCarried(ctx, "ship", "regular", cellar, nil, "scaler")
	must(t, err)
	other, err := f.Simulate(ctx, fleet.NewKyma("other", "regular", "scaler"))
	must(t, err)
	record, err := ship.Record(ctx)
	must(t, err)
	before := record.DeepCopy()
	record.Labels["stage"] = "canary"
	must(t, f.Control.Patch(ctx, record, client.MergeFrom(before)))
	files := 0
	carry := func(version string) {
		t.Helper()
		versions := map[string]string{"scaler": version}
		v.published(ship, versions)
		files++
		file := fmt.Sprintf("bundle-%d.tar", files)
		v.export(file, "ship")
		v.imports(0, cellar, v.file(file))
		untilOwn(t, ship, versions)
	}
	carry("1.7.0")
	v.report(ship, cellar, "report.json") // the report lists the agent's features
	untilSettled(t, other, "1.7.0")

	must(t, f.CreatePolicy(ctx, "scaler", stages(func(canaries, _ *v1alpha1.Wave) {
		canaries.Checks = []v1alpha1.Check{{
			Name: "works", FailureThreshold: 1, CEL: &v1alpha1.CELCheck{Expression: "1 > 2"},
		}}
	})))
	promote(t, f, "1.8.0")
	carry("1.8.0")
	rollout, err := f.Rollout(ctx, firstRollout)
	must(t, err)
	if state := rollout.Status.State; state != v1alpha1.RolloutProgressing {
		t.Fatalf("before the report of the check is carried, the rollout is %s: %s", state, rollout.Status.Message)
	}
	until(t, time.Minute, "the rollout is rolled back after an imported report", func() (bool, string) {
		v.report(ship, cellar, "report.json")
		rollout, err := f.Rollout(ctx, firstRollout)
		must(t, err)
		return rollout.Status.State == v1alpha1.RolloutRollingBack ||
			rollout.Status.State == v1alpha1.RolloutRolledBack, fmt.Sprintf("%+v", rollout.Status)
	})
	if text := ask(t, f, "rollout", "show", firstRollout); !strings.Contains(text, "check works failed in ship") {
		t.Errorf("rollout show does not name the check and the runtime:\n%s", text)
	}
	carry("1.7.0")
	wantHistory(t, other, "1.7.0")
}
