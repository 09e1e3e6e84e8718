package anywhere

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestControlPlanesOwnClusterIsARuntimeToo(t *testing.T) {
	scene(t)
	ctx := t.Context()
	here, err := stage.fleet.AddSingle(ctx, "here", "regular", samplemodule.Module)
	must(t, err)
	must(t, here.UntilState(ctx, samplemodule.Module, stage.promoted, v1beta2.StateReady))
	untilRunning(t, here, promotedImage())
	drift(t, here)
	version := promote(t)
	must(t, here.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))
	must(t, stage.berlin.UntilState(ctx, samplemodule.Module, version, v1beta2.StateReady))

	record, err := here.Record(ctx)
	must(t, err)
	must(t, stage.fleet.Control.Delete(ctx, record))
	until(t, "the runtime is forgotten, with its module", func() (bool, string) {
		_, err := here.Record(ctx)
		_, left := settings(ctx, here)
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(left), fmt.Sprint(err, left)
	})
	var templates v1beta2.ModuleTemplateList
	must(t, stage.fleet.Control.List(ctx, &templates, client.InNamespace(sample.Namespace)))
	if len(templates.Items) == 0 {
		t.Error("with the runtime went the control plane's catalog, which is in the same cluster")
	}
	next := promote(t)
	must(t, stage.berlin.UntilState(ctx, samplemodule.Module, next, v1beta2.StateReady))
}
