package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// kyma creates a recorded Kyma in the control plane, and a Manifest for each of its modules.
func (l landscapeOf) kyma(name string, labels map[string]string, modules ...landscape.Module) {
	l.t.Helper()
	ctx := l.t.Context()
	// Only the Kyma in the runtime lists the modules.
	spec := v1beta2.KymaSpec{Channel: "regular"}
	kyma, err := landscape.Kyma(name, spec, modules...)
	must(l.t, err)
	for key, value := range labels {
		kyma.Labels[key] = value
	}
	kyma.Finalizers = append(kyma.Finalizers, v1beta2.LifecycleManagerFinalizerPurge)
	status := kyma.Status
	must(l.t, l.f.Control.Create(ctx, kyma))
	for _, m := range modules {
		l.manifest(kyma, m)
	}
	before := kyma.DeepCopy()
	kyma.Status = status
	must(l.t, l.f.Control.Status().Patch(ctx, kyma, client.MergeFrom(before)))
}

func (l landscapeOf) manifest(kyma *v1beta2.Kyma, m landscape.Module) {
	l.t.Helper()
	manifest, err := landscape.Manifest(kyma, m)
	must(l.t, err)
	status := manifest.Status
	must(l.t, l.f.Control.Create(l.t.Context(), manifest))
	before := manifest.DeepCopy()
	manifest.Status = status
	must(l.t, l.f.Control.Status().Patch(l.t.Context(), manifest, client.MergeFrom(before)))
}

// install creates lifecycle-manager's objects in a runtime: CRDs, Kyma and modules.
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
		l.write(r, installed)
		template, err := yaml.Marshal(m.Template())
		must(l.t, err)
		for _, o := range l.objects(strings.Replace(string(template), "namespace: "+sample.Namespace,
			"namespace: "+v1beta2.RuntimeNamespace, 1)) {
			l.apply(r, o, "catalog-sync")
		}
	}
	kyma, err := landscape.RuntimeKyma(r.ID, spec)
	must(l.t, err)
	leftovers, err := landscape.Leftovers()
	must(l.t, err)
	l.write(r, slices.Concat(kyma, leftovers))
}

// write applies or creates recorded objects as lifecycle-manager does.
func (l landscapeOf) write(r *fleet.Runtime, all []landscape.Applied) {
	l.t.Helper()
	for _, a := range all {
		if a.Created {
			l.create(r, a.Object, a.Manager)
		} else {
			l.apply(r, a.Object, a.Manager)
		}
	}
}

// apply applies an object. It retries until the API server serves the object's kind.
func (l landscapeOf) apply(r *fleet.Runtime, o *unstructured.Unstructured, manager string) {
	l.t.Helper()
	until(l.t, 30*time.Second, fmt.Sprintf("%s %s is applied to %s", o.GetKind(), o.GetName(), r.ID),
		func() (bool, string) {
			err := r.API.Apply(l.t.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()),
				client.ForceOwnership, client.FieldOwner(manager))
			return err == nil, fmt.Sprint(err)
		})
}

// create creates an object. It retries until the API server serves the object's kind.
func (l landscapeOf) create(r *fleet.Runtime, o *unstructured.Unstructured, manager string) {
	l.t.Helper()
	until(l.t, 30*time.Second, fmt.Sprintf("%s %s is created in %s", o.GetKind(), o.GetName(), r.ID),
		func() (bool, string) {
			err := r.API.Create(l.t.Context(), o.DeepCopy(), client.FieldOwner(manager))
			return err == nil, fmt.Sprint(err)
		})
}

// definition returns lifecycle-manager's CRD for a kind.
func (l landscapeOf) definition(kind string) *unstructured.Unstructured {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "apis", "operator", "v1beta2", "testdata", "kyma-crds",
		kind+".json"))
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

// versions returns the resource versions of the Kymas and lifecycle-manager's Manifests.
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

// deleteManifest deletes a Manifest that lifecycle-manager created, as an operator could.
func (l landscapeOf) deleteManifest(ctx context.Context, name string) {
	l.t.Helper()
	manifest := &v1beta2.Manifest{}
	must(l.t, l.f.Control.Get(ctx, inKCP(name), manifest))
	before := manifest.DeepCopy()
	manifest.Finalizers = nil
	must(l.t, l.f.Control.Patch(ctx, manifest, client.MergeFrom(before)))
	must(l.t, l.f.Control.Delete(ctx, manifest))
}
