package kindscenario

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestControlPlaneClusterCanBeARuntime(t *testing.T) {
	startScenario(t)
	ctx := t.Context()
	here, err := stage.fleet.AddSingle(ctx, "here", "regular", samplemodule.Module)
	must(t, err)
	must(t, here.UntilState(ctx, samplemodule.Module, stage.promoted, v1beta2.StateReady))
	untilRunning(t, here, promotedImage())
	drift(t, here)
	checkPublisherCanWriteCRDs(t)
	version := promote(t)
	must(t, here.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
	must(t, stage.berlin.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))

	record, err := here.Record(ctx)
	must(t, err)
	must(t, stage.fleet.Control.Delete(ctx, record))
	until(t, "the runtime and its module are removed", func() (bool, string) {
		_, err := here.Record(ctx)
		_, left := settings(ctx, here)
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(left), fmt.Sprint(err, left)
	})
	var templates v1beta2.ModuleTemplateList
	must(t, stage.fleet.Control.List(ctx, &templates, client.InNamespace(sample.Namespace)))
	if len(templates.Items) == 0 {
		t.Error("the removal of the runtime deleted the control plane's catalog in the same cluster")
	}
	next := promote(t)
	must(t, stage.berlin.UntilState(ctx, samplemodule.Module, next, v1beta2.StateReady))
}

// checkPublisherCanWriteCRDs checks that the publisher can write the conversion webhook into CRDs, which an admission
// policy protects from all other users.
func checkPublisherCanWriteCRDs(t *testing.T) {
	t.Helper()
	publisher := impersonate(t, fleet.ControlPlane, sample.Namespace, "kcp-publisher")
	kymas := &unstructured.Unstructured{}
	kymas.SetAPIVersion("apiextensions.k8s.io/v1")
	kymas.SetKind("CustomResourceDefinition")
	kymas.SetName("kymas.operator.kyma-project.io")
	writes := func() error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`))
		return publisher.Patch(t.Context(), kymas.DeepCopy(), patch, client.DryRunAll)
	}
	if err := writes(); err == nil || !strings.Contains(err.Error(), "only operators change the CRDs of skr-agent") {
		t.Errorf("a user without rights changed the CRD of Kymas: %v", err)
	}
	must(t, fleet.ApplyChartFile(t.Context(), stage.fleet.Control, "kcp-publisher", "rbac", "single-cluster.yaml"))
	until(t, "the publisher can write the CRD", func() (bool, string) {
		err := writes()
		return err == nil, fmt.Sprint(err)
	})
}
