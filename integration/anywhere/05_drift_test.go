package anywhere

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

func TestWhatAPersonChangesWithKubectlIsPutBack(t *testing.T) {
	scene(t)
	ctx, r := t.Context(), stage.berlin
	well(t, r)
	in := func(args ...string) string {
		return kubectl(t, r, append([]string{"-n", v1beta2.RuntimeNamespace}, args...)...)
	}
	patched := in("patch", "configmap", samplemodule.Settings, "--type=merge", "-p", `{"data":{"level":"debug"}}`, "-o", "jsonpath={.data.level}")
	if strings.TrimSpace(patched) != "debug" {
		t.Fatalf("the patch gave %q", patched)
	}
	untilCorrected(t, r)
	operator := &appsv1.Deployment{}
	must(t, r.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: samplemodule.Operator}, operator))
	in("delete", "deployment", samplemodule.Operator, "--wait")
	until(t, "another Deployment is there and ready", func() (bool, string) {
		again := &appsv1.Deployment{}
		err := r.API.Get(ctx, client.ObjectKeyFromObject(operator), again)
		return err == nil && again.UID != operator.UID && again.Status.ReadyReplicas == 1, fmt.Sprint(err, again.UID, again.Status)
	})
	must(t, r.UntilState(ctx, samplemodule.Module, stage.promoted, v1beta2.StateReady))
}
