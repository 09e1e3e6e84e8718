package kindscenario

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestInstalledModuleHasRunningPods(t *testing.T) {
	startScenario(t)
	untilPromoted(t, stage.berlin)
	untilRunning(t, stage.berlin, promotedImage())
	untilReconciled(t, stage.berlin)
}

// untilReconciled waits until the module's operator has reconciled the default CR.
func untilReconciled(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	until(t, "the operator in "+r.ID+" has handled the default CR", func() (bool, string) {
		beacon := defaultBeacon()
		if err := r.API.Get(t.Context(), client.ObjectKeyFromObject(beacon), beacon); err != nil {
			return false, err.Error()
		}
		answer := &corev1.ConfigMap{}
		err := r.API.Get(t.Context(), client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "beacon-default"},
			answer)
		state, _, _ := unstructured.NestedString(beacon.Object, "status", "state")
		return state == "Ready" && answer.Data["text"] == "ahoy", fmt.Sprint(beacon.Object["status"], answer.Data, err)
	})
}

func defaultBeacon() *unstructured.Unstructured {
	beacon := &unstructured.Unstructured{}
	beacon.SetAPIVersion("beacon.kyma-pull.dev/v1")
	beacon.SetKind("Beacon")
	beacon.SetNamespace(v1beta2.RuntimeNamespace)
	beacon.SetName(samplemodule.DefaultCR)
	return beacon
}
