package lifecyclemanager

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Operator is the field manager of the objects that the recorder writes itself, as an operator does.
const Operator = "operator"

// otherFieldManagers lists the field managers of programs other than lifecycle-manager.
var otherFieldManagers = []string{
	Operator, "lifecyclemanager.test", "kube-apiserver", "kube-controller-manager",
	"kubernetes-service-cidr-controller", "kwok", "kwok-controller",
	"storage-version-migrator", "api-priority-and-fairness-config-consumer-v1",
	"api-priority-and-fairness-config-producer-v1",
}

// Cluster is a recorded cluster.
type Cluster struct {
	Config *rest.Config
	// Replace maps strings that differ between recordings, such as a registry's port, to placeholders.
	Replace map[string]string
}

// Objects returns the objects that lifecycle-manager has written, with placeholders. The keys contain the kind,
// namespace and name of the objects.
func (c Cluster) Objects(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
	found, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	api, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	lists, err := found.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("list the kinds of the cluster: %w", err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || kind.Kind == "Event" || kind.Kind == "Lease" {
				continue
			}
			objects, err := api.Resource(gv.WithResource(kind.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", kind.Name, err)
			}
			for i := range objects.Items {
				o := &objects.Items[i]
				if !isWrittenByKyma(o) {
					continue
				}
				normalize(o, c.Replace)
				all[Key(o)] = o
			}
		}
	}
	return all, nil
}

// Key returns the key of an object in a recording.
func Key(o *unstructured.Unstructured) string {
	return strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, "/")
}

// isWrittenByKyma reports whether lifecycle-manager has written to an object.
func isWrittenByKyma(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return !slices.Contains(otherFieldManagers, f.Manager)
	})
}

// Placeholders for timestamps and UIDs in a recording.
const (
	moment   = "2026-01-01T00:00:00Z"
	identity = "00000000-0000-0000-0000-000000000000"
)

var isUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

var isTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// normalize replaces values that differ between two recordings, and removes the managed fields of other programs.
func normalize(o *unstructured.Unstructured, replace map[string]string) {
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	fields := slices.DeleteFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return slices.Contains(otherFieldManagers, f.Manager) && f.Manager != Operator
	})
	// The API server orders these entries by time.
	slices.SortFunc(fields, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(strings.Compare(a.Manager, b.Manager), strings.Compare(string(a.Operation), string(b.Operation)),
			strings.Compare(a.Subresource, b.Subresource))
	})
	o.SetManagedFields(fields)
	switch o.GetKind() {
	case "CustomResourceDefinition": // do not record the schema
		unstructured.RemoveNestedField(o.Object, "spec")
		unstructured.RemoveNestedField(o.Object, "status")
		o.SetManagedFields(withoutSpec(o.GetManagedFields()))
	case "Secret":
		for key := range o.Object["data"].(map[string]any) {
			o.Object["data"].(map[string]any)[key] = "cmVwbGFjZWQ=" // "replaced"
		}
	case "Kyma":
		sortModules(o)
	case "Service":
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
	case "Deployment":
		unstructured.RemoveNestedField(o.Object, "status")
	}
	o.Object = replaced(o.Object, replace).(map[string]any)
}

// sortModules sorts the modules in a Kyma's status, which lifecycle-manager writes in a random order.
func sortModules(o *unstructured.Unstructured) {
	status, _ := o.Object["status"].(map[string]any)
	modules, _ := status["modules"].([]any)
	name := func(m any) string {
		module, _ := m.(map[string]any)
		text, _ := module["name"].(string)
		return text
	}
	slices.SortFunc(modules, func(a, b any) int { return strings.Compare(name(a), name(b)) })
}

// withoutSpec replaces all spec fields in each managed fields entry with the single field spec.
func withoutSpec(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for i := range all {
		if strings.Contains(all[i].FieldsV1.GetRawString(), `"f:spec"`) {
			all[i].FieldsV1.SetRawString(`{"f:spec":{}}`)
		}
	}
	return all
}

// replaced returns a value with placeholders for everything that differs between recordings: UIDs, timestamps,
// certificates, and the strings that are keys in the map by.
func replaced(value any, by map[string]string) any {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			switch key {
			case "uid":
				v[key] = identity
			case "caBundle":
				v[key] = "cmVwbGFjZWQ="
			case "operator.kyma-project.io/pod-restart-trigger":
				v[key] = "1"
			default:
				if renamed := isUID.ReplaceAllString(key, identity); renamed != key { // the key contains an owner's UID
					delete(v, key)
					key = renamed
				}
				v[key] = replaced(item, by)
			}
		}
	case []any:
		for i := range v {
			v[i] = replaced(v[i], by)
		}
	case string:
		if isTime.MatchString(v) {
			return moment
		}
		for _, text := range slices.Sorted(maps.Keys(by)) {
			v = strings.ReplaceAll(v, text, by[text])
		}
		return v
	}
	return value
}
