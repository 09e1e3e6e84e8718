package anywhere

import (
	"fmt"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestPromotionReplacesThePodsAndPrunesWhatTheVersionDropped(t *testing.T) {
	scene(t)
	well(t, stage.berlin)
	must(t, release(t.Context(), samplemodule.VersionBetter))
	must(t, stage.berlin.UntilState(t.Context(), samplemodule.Module, samplemodule.VersionBetter, v1beta2.StateReady))
	untilRunning(t, stage.berlin, samplemodule.Image(samplemodule.VersionBetter))
	until(t, "the PriorityClass is gone", func() (bool, string) {
		err := stage.berlin.API.Get(t.Context(), client.ObjectKey{Name: "beacon"}, &schedulingv1.PriorityClass{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}
