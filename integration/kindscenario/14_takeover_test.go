package kindscenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/landscape"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// The test installs module beacon as lifecycle-manager does, and takes it over. The module's pods keep running. The
// pods of the next version start, although that version removes the PriorityClass that the current pods use.
func TestLifecycleManagerPodsAreTakenOverThenUpgraded(t *testing.T) {
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool {
			return m.Name == samplemodule.Module
		})
	}))
	must(t, r.UntilGone(ctx, samplemodule.Module))

	installAsLifecycleManager(t, landscape.Module{Version: samplemodule.Prioritized(), Channel: "regular"})
	untilRunning(t, r, samplemodule.Image(samplemodule.VersionGood))
	pod := onlyPod(t)
	ask(t, "start", "berlin")
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		// The agent must adopt the installed version before it installs the channel's version.
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: samplemodule.Module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	}))
	until(t, "the module is adopted", func() (bool, string) {
		output, err := stage.fleet.Ask(ctx, "takeover", "status", "berlin")
		if later := onlyPod(t); pod != "" && later != pod && strings.Contains(output, "0/1") {
			t.Fatalf("pod %s replaced pod %s before the module was adopted", later, pod)
		}
		return err == nil && strings.Contains(output, "1/1"), fmt.Sprint(output, err)
	})
	must(t, r.UntilState(ctx, samplemodule.Module, promote(t), v1beta2.StateReady))
	untilRunning(t, r, promotedImage())
	operator := &appsv1.Deployment{}
	must(t, r.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: samplemodule.Operator},
		operator))
	if class := operator.Spec.Template.Spec.PriorityClassName; class != "" {
		t.Errorf("the module's pods still have PriorityClass %s", class)
	}
	until(t, "the PriorityClass is deleted", func() (bool, string) {
		err := r.API.Get(ctx, client.ObjectKey{Name: "beacon"}, &schedulingv1.PriorityClass{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	until(t, "the runtime is Ready", func() (bool, string) {
		kyma, err := r.Record(ctx)
		return err == nil && kyma.Status.State == v1beta2.StateReady, fmt.Sprintf("%v %+v", err, kyma.Status)
	})
	output := ask(t, "finish", "berlin", "--lifecycle-manager-is-gone")
	for _, want := range []string{"removed in the runtime: Service kyma-system/skr-webhook",
		"removed in the runtime: PriorityClass skr-webhook-priority",
		"Manifest kcp-system/" + landscape.ManifestName("berlin", samplemodule.Module) + " is removed"} {
		if !strings.Contains(output, want) {
			t.Errorf("output of finish does not contain %q:\n%s", want, output)
		}
	}
	untilPromoted(t, r)
}

// installAsLifecycleManager installs a module in berlin and creates its Manifest in the control plane.
func installAsLifecycleManager(t *testing.T, m landscape.Module) {
	t.Helper()
	ctx, r := t.Context(), stage.berlin
	kyma, err := r.Record(ctx)
	must(t, err)
	manifest, err := landscape.Manifest(kyma, m)
	must(t, err)
	status := manifest.Status
	must(t, stage.fleet.Control.Create(ctx, manifest))
	before := manifest.DeepCopy()
	manifest.Status = status
	must(t, stage.fleet.Control.Status().Patch(ctx, manifest, client.MergeFrom(before)))
	all, err := landscape.Installed(kyma.Name, m)
	must(t, err)
	own, err := landscape.Leftovers()
	must(t, err)
	for _, a := range own {
		if a.Object.GetKind() == "Deployment" { // lifecycle-manager's own Deployment, whose image does not exist
			must(t, unstructured.SetNestedField(a.Object.Object, int64(0), "spec", "replicas"))
		}
	}
	for _, a := range append(all, own...) {
		until(t, fmt.Sprintf("%s %s is applied", a.Object.GetKind(), a.Object.GetName()), func() (bool, string) {
			if a.Created {
				err := r.API.Create(ctx, a.Object.DeepCopy(), client.FieldOwner(a.Manager))
				return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
			}
			err := r.API.Apply(ctx, client.ApplyConfigurationFromUnstructured(a.Object.DeepCopy()),
				client.ForceOwnership, client.FieldOwner(a.Manager))
			return err == nil, fmt.Sprint(err)
		})
	}
}

// onlyPod returns the operator pod's UID. It returns "" unless exactly one pod exists.
func onlyPod(t *testing.T) types.UID {
	t.Helper()
	var pods corev1.PodList
	must(t, stage.berlin.API.List(t.Context(), &pods, client.InNamespace(v1beta2.RuntimeNamespace),
		client.MatchingLabels{"app": samplemodule.Operator}))
	if len(pods.Items) != 1 {
		return ""
	}
	return pods.Items[0].UID
}

// ask runs `kcp-publisher takeover` and returns its output.
func ask(t *testing.T, args ...string) string {
	t.Helper()
	output, err := stage.fleet.Ask(t.Context(), append([]string{"takeover"}, args...)...)
	if err != nil {
		t.Fatalf("takeover %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}
