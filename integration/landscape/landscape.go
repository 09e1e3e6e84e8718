// Package landscape returns the objects that lifecycle-manager creates in a control plane and in runtimes for given
// modules. It derives them from objects that were recorded with a real lifecycle-manager.
//
// The folder recorded contains the objects after each of six steps, with placeholders for UIDs, times, keys and
// addresses. source.txt contains lifecycle-manager's commit. The test in integration/lifecyclemanager updates the
// folder.
package landscape

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Module is a module version that lifecycle-manager installed from a channel.
type Module struct {
	sample.Version
	Channel string
}

// ManifestName returns the name of the Manifest that lifecycle-manager creates for a module.
//
// Source: lifecycle-manager, pkg/module/common.
func ManifestName(kyma, module string) string {
	component := sample.Version{Module: module}.Component()
	hash := fnv.New32()
	_, _ = hash.Write([]byte(component + module))
	return fmt.Sprintf("%s-%s-%v", kyma, component[strings.LastIndexByte(component, '/')+1:], hash.Sum32())
}

// Kyma returns a Kyma for the control plane with lifecycle-manager's status for these modules. The caller must write
// the status in a separate request.
func Kyma(name string, spec v1beta2.KymaSpec, modules ...Module) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	if err := recorded("kcp", "Kyma", RecordedKyma, kyma); err != nil {
		return nil, err
	}
	kyma.Name, kyma.Generation, kyma.ManagedFields, kyma.Spec = name, 0, nil, spec
	kyma.Labels[v1beta2.LabelRuntimeID] = name
	entries := kyma.Status.Modules
	kyma.Status.Modules = nil
	for _, m := range modules {
		at := slices.IndexFunc(entries, func(s v1beta2.ModuleStatus) bool { return s.Name == shapeOf(m) })
		entry := *entries[at].DeepCopy()
		entry.Name, entry.FQDN, entry.OcmComponentName = m.Module, m.Component(), m.Component()
		entry.Channel, entry.Version = m.Channel, m.Version.Version
		entry.Manifest.PartialMeta.Name = ManifestName(name, m.Module)
		entry.Template.PartialMeta.Name = m.Template().Name
		if cr := m.Template().Spec.Data; cr != nil {
			entry.Resource.APIVersion, entry.Resource.Kind = cr.GetAPIVersion(), cr.GetKind()
			entry.Resource.PartialMeta.Name, entry.Resource.PartialMeta.Namespace = cr.GetName(), cr.GetNamespace()
		}
		kyma.Status.Modules = append(kyma.Status.Modules, entry)
	}
	return kyma, nil
}

// shapeOf returns the recorded module whose objects are the model for m: scaler if m has a default CR, and mailer
// otherwise.
func shapeOf(m Module) string {
	if m.DefaultCR != "" {
		return "scaler"
	}
	return "mailer"
}

// Manifest returns the Manifest that lifecycle-manager creates for a module in the control plane. The caller must
// write the status in a separate request.
func Manifest(kyma *v1beta2.Kyma, m Module) (*v1beta2.Manifest, error) {
	manifest := &v1beta2.Manifest{}
	if err := recorded("kcp", "Manifest", ManifestName(RecordedKyma, shapeOf(m)), manifest); err != nil {
		return nil, err
	}
	manifest.Name, manifest.Namespace = ManifestName(kyma.Name, m.Module), kyma.Namespace
	manifest.Generation, manifest.ManagedFields = 0, nil
	manifest.Labels[v1beta2.LabelKymaName], manifest.Labels[v1beta2.LabelModuleName] = kyma.Name, m.Module
	manifest.Labels[v1beta2.LabelChannel] = m.Channel
	for annotation, value := range manifest.Annotations {
		switch {
		case strings.HasPrefix(value, "sha256:"):
			manifest.Annotations[annotation] = m.ContentDigest().String()
		case strings.Contains(value, "/module/"):
			manifest.Annotations[annotation] = m.Component()
		}
	}
	manifest.OwnerReferences[0].Name, manifest.OwnerReferences[0].UID = kyma.Name, kyma.UID
	template := m.Template()
	manifest.Spec.Version, manifest.Spec.Manager, manifest.Spec.Resource = m.Version.Version, template.Spec.Manager,
		template.Spec.Data
	source := map[string]any{}
	if err := json.Unmarshal(manifest.Spec.Install.Source.Raw, &source); err != nil {
		return nil, err
	}
	source["name"], source["ref"] = m.Component(), m.ContentDigest()
	raw, err := json.Marshal(source)
	if err != nil {
		return nil, err
	}
	manifest.Spec.Install.Source.Raw = raw
	manifest.Status.Synced = nil
	objects, err := Objects(m.Manifest)
	for _, o := range objects {
		manifest.Status.Synced = append(manifest.Status.Synced, v1beta2.Resource{
			Name: o.GetName(), Namespace: o.GetNamespace(),
			GroupVersionKind: metav1.GroupVersionKind(o.GroupVersionKind()),
		})
	}
	return manifest, err
}

// Applied is an object with lifecycle-manager's field manager.
type Applied struct {
	Object  *unstructured.Unstructured
	Manager string
	Created bool
}

// Installed returns the objects of a module in a Kyma's runtime, in the order in which
// lifecycle-manager applies them.
func Installed(kyma string, m Module) ([]Applied, error) {
	all, err := Recorded("1-installed", "skr")
	if err != nil {
		return nil, err
	}
	marked, bare := all["ConfigMap/kyma-system/scaler-settings"], all["Scaler/kyma-system/default"]
	if marked == nil || bare == nil {
		return nil, errors.New("the recording does not contain the objects of module scaler")
	}
	var installed []Applied
	for _, of := range []struct {
		text string
		like *unstructured.Unstructured
	}{{m.Manifest, marked}, {m.DefaultCR, bare}} {
		objects, err := Objects(of.text)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			o.SetLabels(withMarks(o.GetLabels(), of.like.GetLabels(), kyma, m))
			o.SetAnnotations(withMarks(o.GetAnnotations(), of.like.GetAnnotations(), kyma, m))
			installed = append(installed, withFieldManager(o, of.like))
		}
	}
	return installed, nil
}

// withMarks returns an object's own labels or annotations, together with those that lifecycle-manager sets for a
// module. The map recorded contains the values that lifecycle-manager wrote for module scaler.
func withMarks(own, recorded map[string]string, kyma string, m Module) map[string]string {
	if len(recorded) == 0 {
		return own
	}
	all := maps.Clone(own)
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range recorded {
		all[key] = strings.ReplaceAll(value, ManifestName(RecordedKyma, "scaler"), ManifestName(kyma, m.Module))
	}
	return all
}

// withFieldManager returns object o with the field manager that wrote the recorded object.
func withFieldManager(o, recorded *unstructured.Unstructured) Applied {
	first := recorded.GetManagedFields()[0]
	return Applied{Object: o, Manager: first.Manager, Created: first.Operation == metav1.ManagedFieldsOperationUpdate}
}

// RuntimeKyma returns the two writes that create lifecycle-manager's Kyma in a runtime. The first write creates the
// Kyma, and the second applies labels and annotations.
func RuntimeKyma(kyma string, spec v1beta2.KymaSpec) ([]Applied, error) {
	all, err := Recorded("1-installed", "skr")
	if err != nil {
		return nil, err
	}
	o := all["Kyma/kyma-system/default"]
	fields := o.GetManagedFields()
	marked := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind()}}
	marked.SetNamespace(o.GetNamespace())
	marked.SetName(o.GetName())
	created := marked.DeepCopy()
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	labels[v1beta2.LabelRuntimeID] = kyma
	for key, value := range annotations {
		annotations[key] = strings.Replace(value, sample.Namespace+"/"+RecordedKyma, sample.Namespace+"/"+kyma, 1)
	}
	marked.SetLabels(labels)
	marked.SetAnnotations(annotations)
	if created.Object["spec"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&spec); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(fields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Operation == metav1.ManagedFieldsOperationUpdate
	})
	return []Applied{{Object: created, Manager: fields[at].Manager, Created: true}, withFieldManager(marked, o)}, nil
}

// Leftovers returns lifecycle-manager's own objects in a runtime, except CRDs, in order of creation.
func Leftovers() (all []Applied, err error) {
	objects, err := Recorded("1-installed", "skr")
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(objects))) {
		o := objects[key]
		if fields := o.GetManagedFields(); fields[0].Manager != "lifecycle-manager" ||
			o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		own := withFieldManager(o, o)
		o.SetManagedFields(nil)
		unstructured.RemoveNestedField(o.Object, "metadata", "generation")
		unstructured.RemoveNestedField(o.Object, "status")
		all = append(all, own)
	}
	return all, err
}

// Objects parses YAML documents. It drops fields that only the API server writes.
func Objects(text string) ([]*unstructured.Unstructured, error) {
	all, err := decode(text)
	for _, o := range all {
		unstructured.RemoveNestedField(o.Object, "status")
		unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	}
	return all, err
}

func decode(text string) (all []*unstructured.Unstructured, err error) {
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
			all = append(all, o)
		}
	}
}
