package anywhere

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestBrokenVersionIsReportedAndTheNextOneHeals(t *testing.T) {
	scene(t)
	ctx, r := t.Context(), stage.berlin
	well(t, r)
	worked := promotedImage()
	must(t, release(ctx, samplemodule.VersionBroken))
	until(t, "the control plane shows the broken version, and not as Ready", func() (bool, string) {
		kyma, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, m := range kyma.Status.Modules {
			if m.Name == samplemodule.Module {
				return m.Version == samplemodule.VersionBroken && m.State != v1beta2.StateReady && kyma.Status.State != v1beta2.StateReady, fmt.Sprintf("%+v", m)
			}
		}
		return false, fmt.Sprintf("%+v", kyma.Status)
	})
	if stage.kind != nil {
		untilCrashing(t, worked)
	}
	stage.line, stage.patch = "2.0", 0 // nothing is ever downgraded
	version := promote(t)
	must(t, r.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
	untilRunning(t, r, promotedImage())
}

// untilCrashing waits until the broken operator has failed again and again, while the one before it still runs.
func untilCrashing(t *testing.T, worked string) {
	t.Helper()
	until(t, "the broken operator crashes beside the one that works", func() (bool, string) {
		var pods corev1.PodList
		err := stage.berlin.API.List(t.Context(), &pods, client.InNamespace(v1beta2.RuntimeNamespace), client.MatchingLabels{"app": samplemodule.Operator})
		crashes, works, seen := false, false, fmt.Sprint(err)
		for _, p := range pods.Items {
			for _, c := range p.Status.ContainerStatuses {
				crashes = crashes || c.Image == samplemodule.Image(samplemodule.VersionBroken) && c.RestartCount > 0
				works = works || c.Image == worked && c.Ready
				seen += fmt.Sprintf(" %s ready=%t restarts=%d", c.Image, c.Ready, c.RestartCount)
			}
		}
		return crashes && works, seen
	})
}
