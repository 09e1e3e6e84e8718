package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/landscape"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// landscapeOf is a control plane with lifecycle-manager's objects.
type landscapeOf struct {
	t *testing.T
	f *fleet.Fleet
}

// kyma creates a Kyma in the control plane, with a Manifest for each module.
func (l landscapeOf) kyma(name string, labels map[string]string, modules ...landscape.Module) {
	l.t.Helper()
	ctx := l.t.Context()
	kyma := fleet.NewKyma(name, "regular") // the broker's original request; the runtime's own Kyma has the modules
	for key, value := range labels {
		kyma.Labels[key] = value
	}
	kyma.Labels[v1beta2.LabelManagedBy] = "lifecycle-manager"
	kyma.Finalizers = []string{v1beta2.FinalizerKyma, v1beta2.LifecycleManagerFinalizerPurge}
	must(l.t, l.f.Control.Create(ctx, kyma))
	status := v1beta2.KymaStatus{ActiveChannel: "regular", State: v1beta2.StateReady}
	for _, kind := range append([]string{v1beta2.ConditionModules, v1beta2.ConditionModuleCatalog}, v1beta2.LifecycleManagerConditions...) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Ready", Message: "by lifecycle-manager"})
	}
	for _, m := range modules {
		manifest := l.manifest(kyma, m)
		status.Modules = append(status.Modules, v1beta2.ModuleStatus{Name: m.Module, FQDN: m.Component(), Channel: m.Channel, Version: m.Version.Version, State: v1beta2.StateReady,
			Manifest: &v1beta2.TrackingObject{TypeMeta: metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Manifest"}, PartialMeta: v1beta2.PartialMeta{Name: manifest.Name, Namespace: manifest.Namespace}}})
	}
	before := kyma.DeepCopy()
	kyma.Status = status
	must(l.t, l.f.Control.Status().Patch(ctx, kyma, client.MergeFrom(before)))
}

func (l landscapeOf) manifest(kyma *v1beta2.Kyma, m landscape.Module) *v1beta2.Manifest {
	l.t.Helper()
	manifest, err := landscape.Manifest(kyma, m)
	must(l.t, err)
	status := manifest.Status
	must(l.t, l.f.Control.Create(l.t.Context(), manifest))
	before := manifest.DeepCopy()
	manifest.Status = status
	must(l.t, l.f.Control.Status().Patch(l.t.Context(), manifest, client.MergeFrom(before)))
	return manifest
}

// install creates the objects that lifecycle-manager installs in a runtime: its definitions, its Kyma and its modules.
func (l landscapeOf) install(r *fleet.Runtime, channel string, modules ...landscape.Module) {
	l.t.Helper()
	for _, kind := range []string{"kymas", "moduletemplates", "modulereleasemetas"} {
		l.apply(r, l.definition(kind), "lifecycle-manager")
	}
	spec := v1beta2.KymaSpec{Channel: channel}
	for _, m := range modules {
		asked := managed(m.Module)
		if m.Channel != channel {
			asked.Channel = m.Channel
		}
		spec.Modules = append(spec.Modules, asked)
		installed, err := landscape.Installed(r.ID, m)
		must(l.t, err)
		for _, a := range installed {
			if a.Created {
				l.create(r, a.Object, a.Manager)
			} else {
				l.apply(r, a.Object, a.Manager)
			}
		}
		template, err := yaml.Marshal(m.Template())
		must(l.t, err)
		for _, o := range l.objects(strings.Replace(string(template), "namespace: "+sample.Namespace, "namespace: "+v1beta2.RuntimeNamespace, 1)) {
			l.apply(r, o, "catalog-sync")
		}
	}
	kyma, err := yaml.Marshal(&v1beta2.Kyma{TypeMeta: metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Kyma"},
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName,
			Labels: map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, v1beta2.LabelWatchedBy: v1beta2.ManagedByKyma}}, Spec: spec})
	must(l.t, err)
	for _, o := range l.objects(string(kyma) + landscape.Leftovers) {
		l.apply(r, o, "lifecycle-manager")
	}
}

// apply waits until definitions are served.
func (l landscapeOf) apply(r *fleet.Runtime, o *unstructured.Unstructured, manager string) {
	l.t.Helper()
	until(l.t, 30*time.Second, fmt.Sprintf("%s %s is applied to %s", o.GetKind(), o.GetName(), r.ID), func() (bool, string) {
		err := r.API.Apply(l.t.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.ForceOwnership, client.FieldOwner(manager))
		return err == nil, fmt.Sprint(err)
	})
}

// create waits until definitions are served.
func (l landscapeOf) create(r *fleet.Runtime, o *unstructured.Unstructured, manager string) {
	l.t.Helper()
	until(l.t, 30*time.Second, fmt.Sprintf("%s %s is created in %s", o.GetKind(), o.GetName(), r.ID), func() (bool, string) {
		err := r.API.Create(l.t.Context(), o.DeepCopy(), client.FieldOwner(manager))
		return err == nil, fmt.Sprint(err)
	})
}

// definition is one of lifecycle-manager's CRDs.
func (l landscapeOf) definition(kind string) *unstructured.Unstructured {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "apis", "operator", "v1beta2", "testdata", "kyma-crds", kind+".json"))
	must(l.t, err)
	o := &unstructured.Unstructured{}
	must(l.t, json.Unmarshal(data, &o.Object))
	o.SetAPIVersion("apiextensions.k8s.io/v1")
	o.SetKind("CustomResourceDefinition")
	o.SetName(kind + "." + v1beta2.Group)
	return o
}

func (l landscapeOf) objects(text string) []*unstructured.Unstructured {
	l.t.Helper()
	all, err := landscape.Objects(text)
	must(l.t, err)
	return all
}

// versions are the resource versions of all of lifecycle-manager's objects of Kymas.
func (l landscapeOf) versions(kymas []string) map[string]string {
	l.t.Helper()
	found := map[string]string{}
	for _, name := range kymas {
		kyma, manifest := &v1beta2.Kyma{}, &v1beta2.Manifest{}
		must(l.t, l.f.Control.Get(l.t.Context(), inKCP(name), kyma))
		must(l.t, l.f.Control.Get(l.t.Context(), inKCP(landscape.ManifestName(name, "scaler")), manifest))
		found[name], found[manifest.Name] = kyma.ResourceVersion, manifest.ResourceVersion
	}
	return found
}

func inKCP(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: sample.Namespace, Name: name}
}

// deleteManifest removes one of lifecycle-manager's Manifests, like an operator who considers it unused.
func (l landscapeOf) deleteManifest(ctx context.Context, name string) {
	l.t.Helper()
	manifest := &v1beta2.Manifest{}
	must(l.t, l.f.Control.Get(ctx, inKCP(name), manifest))
	before := manifest.DeepCopy()
	manifest.Finalizers = nil
	must(l.t, l.f.Control.Patch(ctx, manifest, client.MergeFrom(before)))
	must(l.t, l.f.Control.Delete(ctx, manifest))
}
