package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// removeModule removes a module from the runtime's Kyma.
func removeModule(t *testing.T, r *fleet.Runtime, module string) {
	t.Helper()
	must(t, r.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		for i, m := range spec.Modules {
			if m.Name == module {
				spec.Modules = append(spec.Modules[:i], spec.Modules[i+1:]...)
				return
			}
		}
	}))
}

// untilModule waits until the Kyma's status for a module meets a condition.
func untilModule(
	t *testing.T, what string, read func() (*v1beta2.Kyma, error), module string, like func(v1beta2.ModuleStatus) bool,
) {
	t.Helper()
	until(t, 40*time.Second, what, func() (bool, string) {
		kyma, err := read()
		if err != nil {
			return false, err.Error()
		}
		for _, m := range kyma.Status.Modules {
			if m.Name == module {
				return like(m), fmt.Sprintf("%+v", m)
			}
		}
		return false, fmt.Sprintf("%+v", kyma.Status.Modules)
	})
}

func TestModuleIsUpgradedDuringItsDeletion(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	cr := &unstructured.Unstructured{}
	cr.SetAPIVersion("sample.kyma-pull.dev/v1")
	cr.SetKind("Scaler")
	must(t, r.API.Get(ctx, inKyma("default"), cr))
	before := cr.DeepCopy()
	cr.SetFinalizers([]string{"sample.kyma-pull.dev/busy"})
	must(t, r.API.Patch(ctx, cr, client.MergeFrom(before)))
	removeModule(t, r, f.Own("scaler"))
	untilModule(t, "the control plane names the blocking finalizer",
		func() (*v1beta2.Kyma, error) { return r.Record(ctx) }, f.Own("scaler"), func(m v1beta2.ModuleStatus) bool {
			return m.State == v1beta2.StateDeleting && strings.Contains(m.Message, "sample.kyma-pull.dev/busy")
		})
	runs := func(version, what string) {
		t.Helper()
		until(t, 40*time.Second, what, func() (bool, string) {
			d := &appsv1.Deployment{}
			if err := r.API.Get(ctx, inKyma("scaler-manager"), d); err != nil {
				return false, err.Error()
			}
			return d.Spec.Template.Spec.Containers[0].Image == "example.org/scaler:"+version,
				d.Spec.Template.Spec.Containers[0].Image
		})
	}
	promote(t, f, "1.8.0")
	runs("1.8.0", "the module's operator is upgraded during the module's deletion")
	newest := scaler(f, "1.9.0")
	must(t, newest.Push(ctx, f.Modules))
	must(t, f.Control.Create(ctx, newest.Template()))
	setChannels(t, f, "1.8.0", "1.9.0")
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: f.Own("scaler"), Channel: "fast", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	}))
	runs("1.9.0", "the module's operator follows the channel of the renewed request")
	must(t, r.API.Get(ctx, inKyma("default"), cr))
	if cr.GetDeletionTimestamp() == nil {
		t.Error("the default CR is no longer being deleted")
	}
	deleted := cr.GetUID()
	before = cr.DeepCopy()
	cr.SetFinalizers(nil)
	must(t, r.API.Patch(ctx, cr, client.MergeFrom(before)))
	until(t, 40*time.Second, "the module is installed again", func() (bool, string) {
		err := r.API.Get(ctx, inKyma("default"), cr)
		return err == nil && cr.GetUID() != deleted, fmt.Sprint(err, cr.GetUID())
	})
	must(t, r.UntilState(ctx, f.Own("scaler"), "1.9.0", v1beta2.StateReady))
}

func TestCustomStateCheckDecidesModuleState(t *testing.T) {
	suite.Long(t) // the short suite runs TestCustomStateChecksDetermineState and TestModuleStateIsMostSevereState
	ctx := t.Context()
	f := shareFleet(t)
	v := scaler(f, "1.9.0")
	must(t, v.Push(ctx, f.Modules))
	template := v.Template()
	template.Spec.Manager = nil
	template.Spec.CustomStateCheck = []v1beta2.CustomStateCheck{
		{JSONPath: "spec.interval", Value: "30", MappedState: v1beta2.StateReady}, {
			JSONPath: "spec.interval", Value: "13", MappedState: v1beta2.StateError,
		},
	}
	must(t, f.Control.Create(ctx, template))
	promote(t, f, "1.9.0")
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.9.0"})
	cr := &unstructured.Unstructured{}
	cr.SetAPIVersion("sample.kyma-pull.dev/v1")
	cr.SetKind("Scaler")
	set := func(interval int64) {
		must(t, r.API.Get(ctx, inKyma("default"), cr))
		before := cr.DeepCopy()
		must(t, unstructured.SetNestedField(cr.Object, interval, "spec", "interval"))
		must(t, r.API.Patch(ctx, cr, client.MergeFrom(before)))
	}
	set(13)
	untilModule(t, "the status reports an unknown state", func() (*v1beta2.Kyma, error) { return r.Record(ctx) },
		f.Own("scaler"), func(m v1beta2.ModuleStatus) bool {
			return m.State == v1beta2.StateError && strings.Contains(m.Message, "spec.interval is 13")
		})
	set(30)
	must(t, r.UntilState(ctx, f.Own("scaler"), "1.9.0", v1beta2.StateReady))
}

func TestModuleStatusFollowsItsManager(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	for kind, broken := range map[string]bool{"Deployment": false, "StatefulSet": false, "Deployment-broken": true} {
		name := strings.ToLower(kind)
		annotations := ""
		if broken {
			annotations = ", annotations: {kyma-pull.dev/simulate: broken}"
		}
		workload, _, _ := strings.Cut(kind, "-")
		v := sample.Version{Module: f.Own(name), Version: "1.0.0", Manifest: fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: %s, namespace: kyma-system%s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec: {containers: [{name: manager, image: example.org/manager}]}
`, workload, name, annotations)}
		must(t, v.Push(ctx, f.Modules))
		template := v.Template()
		template.Spec.Manager = &v1beta2.Manager{
			GroupVersionKind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: workload},
			Namespace:        v1beta2.RuntimeNamespace, Name: name,
		}
		must(t, f.Control.Create(ctx, template))
		must(t, release(ctx, f, v))
	}
	r, err := f.AddRuntime(ctx, f.Own("one"), "regular", f.Own("deployment"), f.Own("statefulset"),
		f.Own("deployment-broken"))
	must(t, err)
	must(t, r.UntilState(ctx, f.Own("deployment"), "1.0.0", v1beta2.StateReady))
	must(t, r.UntilState(ctx, f.Own("statefulset"), "1.0.0", v1beta2.StateReady))
	must(t, r.UntilState(ctx, f.Own("deployment-broken"), "1.0.0", v1beta2.StateProcessing))
	removeModule(t, r, f.Own("deployment-broken"))
	must(t, r.UntilGone(ctx, f.Own("deployment-broken")))
}

func TestModuleStatusNamesItsTemplateAndManifest(t *testing.T) {
	ctx := t.Context()
	f := shareFleet(t)
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	namespace := map[string]string{"control plane": sample.Namespace, "runtime": v1beta2.RuntimeNamespace}
	for side, read := range map[string]func() (*v1beta2.Kyma, error){
		"control plane": func() (*v1beta2.Kyma, error) { return r.Record(ctx) },
		"runtime":       func() (*v1beta2.Kyma, error) { return r.Kyma(ctx) },
	} {
		untilModule(t, "the "+side+" reports every status field of the module", read, f.Own("scaler"),
			func(m v1beta2.ModuleStatus) bool {
				return m.State == v1beta2.StateReady && m.FQDN == scaler(f, "").Component() &&
					m.OcmComponentName == m.FQDN && m.Channel == "regular" && m.Version == "1.7.0" &&
					m.Manifest != nil && m.Manifest.PartialMeta.Name == f.Own("scaler") && m.Resource != nil &&
					m.Resource.Kind == "Scaler" &&
					m.Template != nil && m.Template.PartialMeta == v1beta2.PartialMeta{
					Name: f.Own("scaler") + "-1.7.0", Namespace: namespace[side], Generation: 1,
				}
			})
		until(t, 30*time.Second, "the "+side+" shows all conditions and the channel", func() (bool, string) {
			kyma, err := read()
			if err != nil {
				return false, err.Error()
			}
			ready := false
			for _, c := range kyma.Status.Conditions {
				ready = ready || c.Type == v1beta2.ConditionReady && c.Status == metav1.ConditionTrue &&
					c.ObservedGeneration == kyma.Generation
			}
			return ready && kyma.Status.State == v1beta2.StateReady && kyma.Status.ActiveChannel == "regular" &&
				kyma.Status.LastOperation != nil, fmt.Sprintf("%+v", kyma.Status)
		})
	}
}

func TestSingleClusterModeInstallsAndRemovesModules(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{SingleCluster: true})
	board := &v1beta2.ModuleTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "mailer-1.0.0"}}
	must(t, f.Control.Patch(ctx, board,
		client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"operator.kyma-project.io/target":"control-plane"}}}`))))
	r, err := f.AddSingle(ctx, "here", "regular", "scaler", "mailer")
	must(t, err)
	must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
	must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	removeModule(t, r, "mailer")
	must(t, r.UntilGone(ctx, "mailer"))
	// In single-cluster mode, the control plane and the runtime are two namespaces of one cluster, each with its own
	// ModuleTemplates.
	var templates v1beta2.ModuleTemplateList
	must(t, f.Control.List(ctx, &templates))
	offered, count := 0, 0
	for _, m := range templates.Items {
		switch m.Namespace {
		case sample.Namespace:
			offered++
		case v1beta2.RuntimeNamespace:
			count++
		}
	}
	// No channel contains scaler 1.7.0 anymore, so the catalog in the runtime omits it.
	if offered != 3 || count != 2 {
		t.Errorf("got %d ModuleTemplates in the control plane and %d in the runtime, want 3 and 2", offered, count)
	}
	deleteKyma(t, f, r)
	untilForgotten(t, r, 60*time.Second)
	must(t, f.Control.List(ctx, &templates, client.InNamespace(sample.Namespace)))
	if len(templates.Items) != 3 {
		t.Errorf("deletion of the Kyma removed %d of the control plane's ModuleTemplates", 3-len(templates.Items))
	}
}
