// Package landscape creates the objects that lifecycle-manager leaves in a control plane and in runtimes. Its input is
// modules; its output is Manifests and marked objects.
//
// Source: lifecycle-manager, internal/manifest, internal/service/manifest/render, internal/remote, pkg/module/common.
package landscape

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Module is a version of a module that lifecycle-manager installed by a channel.
type Module struct {
	sample.Version
	Channel string
}

// ManifestName returns the name of lifecycle-manager's Manifest of a module.
func ManifestName(kyma, module string) string { return kyma + "-" + module + "-1234567" }

// Manifest returns lifecycle-manager's Manifest of a module in the control plane. Its status is to be written apart.
func Manifest(kyma *v1beta2.Kyma, m Module) (*v1beta2.Manifest, error) {
	manifest := &v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{Namespace: kyma.Namespace, Name: ManifestName(kyma.Name, m.Module),
			Labels: map[string]string{
				v1beta2.LabelKymaName:   kyma.Name,
				v1beta2.LabelModuleName: m.Module,
				v1beta2.LabelChannel:    m.Channel,
				v1beta2.LabelManagedBy:  "lifecycle-manager",
			},
			Annotations: map[string]string{v1beta2.AnnotationFQDN: m.Component(), "sync-oci-ref": m.ContentDigest().String()},
			Finalizers: []string{
				v1beta2.FinalizerManifest,
				v1beta2.LifecycleManagerFinalizerResource,
				v1beta2.LifecycleManagerFinalizerLabels,
			}},
		Spec: v1beta2.ManifestSpec{Version: m.Version.Version, Install: v1beta2.InstallInfo{Name: "raw-manifest"}},
	}
	manifest.Spec.Install.Source.Raw = fmt.Appendf(nil, `{"ref":%q,"type":"oci-dir"}`, m.ContentDigest())
	manifest.Status.State = v1beta2.StateReady
	objects, err := Objects(m.Manifest)
	for _, o := range objects {
		manifest.Status.Synced = append(
			manifest.Status.Synced,
			v1beta2.Resource{
				Name:             o.GetName(),
				Namespace:        o.GetNamespace(),
				GroupVersionKind: metav1.GroupVersionKind(o.GroupVersionKind()),
			},
		)
	}
	return manifest, err
}

// Applied is an object with the field manager by which lifecycle-manager wrote it: by an apply, or for a default CR by a
// create.
type Applied struct {
	Object  *unstructured.Unstructured
	Manager string
	Created bool
}

// Installed returns what lifecycle-manager applies of a module to the runtime of a Kyma, in its order.
func Installed(kyma string, m Module) ([]Applied, error) {
	var all []Applied
	objects, err := Objects(m.Manifest)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		o.SetLabels(
			with(
				o.GetLabels(),
				map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, "app.kubernetes.io/part-of": "Kyma"},
			),
		)
		o.SetAnnotations(
			with(
				o.GetAnnotations(),
				map[string]string{v1beta2.AnnotationOwnedByDeprecated: sample.Namespace + "/" + ManifestName(kyma, m.Module)},
			),
		)
		all = append(all, Applied{Object: o, Manager: v1beta2.FieldManagerApplier})
	}
	crs, err := Objects(m.DefaultCR)
	for _, o := range crs {
		all = append(all, Applied{Object: o, Manager: v1beta2.LifecycleManagerFinalizerResource, Created: true})
	}
	return all, err
}

// Leftovers is some of what lifecycle-manager has in a runtime for itself.
const Leftovers = `---
apiVersion: v1
kind: Service
metadata: {name: skr-webhook, namespace: kyma-system, labels: {operator.kyma-project.io/managed-by: kyma}}
spec: {ports: [{port: 443}], selector: {app: skr-webhook}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: skr-webhook-priority, labels: {operator.kyma-project.io/managed-by: kyma}}
value: 2000000
`

// Objects returns those of YAML documents, without what the API server alone writes.
func Objects(text string) (all []*unstructured.Unstructured, err error) {
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			unstructured.RemoveNestedField(o.Object, "status")
			unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
			all = append(all, o)
		}
	}
}

func with(all, more map[string]string) map[string]string {
	next := maps.Clone(all)
	if next == nil {
		next = map[string]string{}
	}
	maps.Copy(next, more)
	return next
}
