package kindscenario

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
	"github.com/kyma-pull/kyma-pull/integration/try"
)

// This test runs the steps of docs/tutorials/try-a-module.md with KIND=1, on the other scenarios' clusters, because
// creating more clusters would take minutes.
func TestSampleModulePassesTrialWithPods(t *testing.T) {
	suite.Long(t) // the short suite runs TestInstalledModuleHasRunningPods
	startScenario(t)
	ctx := t.Context()
	var had []*fleet.Runtime
	for _, r := range []*fleet.Runtime{stage.berlin, stage.tokyo} {
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			left := slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool {
				return m.Name == samplemodule.Module
			})
			if len(left) < len(spec.Modules) {
				had = append(had, r)
			}
			spec.Modules = left
		}))
		must(t, r.UntilGone(ctx, samplemodule.Module))
	}
	// Remove the module's release. Otherwise, a rollout would treat the trial's older version as a downgrade and delay the
	// installation.
	must(t, stage.fleet.Control.Delete(ctx, sample.Release(samplemodule.Module, samplemodule.Good().Component())))
	verdicts, err := try.Run(ctx, try.Options{
		Fleet: stage.fleet, Runtimes: [2]*fleet.Runtime{stage.berlin, stage.tokyo}, Progress: os.Stderr,
	})
	must(t, err)
	var printed strings.Builder
	try.Print(&printed, verdicts)
	if !try.Passed(verdicts) || len(verdicts) != 9 {
		t.Fatalf("some steps failed:\n%s", printed.String())
	}
	must(t, release(ctx, stage.promoted))
	for _, r := range had {
		add(t, r)
	}
}
