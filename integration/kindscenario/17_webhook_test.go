package kindscenario

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// The control plane's API server reaches the publisher's pods through their Service and NetworkPolicy.
func TestControlPlaneCallsThePublishersWebhooks(t *testing.T) {
	startScenario(t)
	ctx := t.Context()
	until(t, "v1beta1 is served", func() (bool, string) {
		old := &unstructured.Unstructured{}
		old.SetAPIVersion("operator.kyma-project.io/v1beta1")
		old.SetKind("Kyma")
		err := stage.fleet.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: stage.berlin.ID}, old)
		return err == nil && old.GetAPIVersion() == "operator.kyma-project.io/v1beta1", fmt.Sprint(err)
	})
	broken := &v1beta2.ModuleTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "beacon-9.0.0"},
		Spec: v1beta2.ModuleTemplateSpec{
			ModuleName: samplemodule.Module, Version: "9.0.0", Descriptor: runtime.RawExtension{
				Raw: []byte(`{"meta":{"schemaVersion":"v9"}}`),
			},
		},
	}
	if err := stage.fleet.Control.Create(ctx, broken, client.DryRunAll); err == nil ||
		!strings.Contains(err.Error(), "spec.descriptor") {
		t.Errorf("create a ModuleTemplate that cannot be resolved: %v", err)
	}
}

// Helm waits until the pods are ready. Their probes call the service.
func TestTokenServiceInTheChartRuns(t *testing.T) {
	startScenario(t)
	service := &appsv1.Deployment{}
	must(t, stage.fleet.Control.Get(t.Context(),
		client.ObjectKey{Namespace: sample.Namespace, Name: "kcp-publisher-token-service"}, service))
	if service.Status.ReadyReplicas == 0 {
		t.Errorf("the token service is not ready: %+v", service.Status)
	}
}
