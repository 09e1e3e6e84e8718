package try

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

type object struct {
	schema.GroupVersionKind
	client.ObjectKey
}

func (o object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// isSameObject reports whether two references identify the same object, ignoring the API version.
func isSameObject(a, b object) bool {
	return a.GroupKind() == b.GroupKind() && a.ObjectKey == b.ObjectKey
}

// withoutObjects returns the objects that are not in excluded.
func withoutObjects(objects, excluded []object) []object {
	return slices.DeleteFunc(slices.Clone(objects), func(o object) bool {
		return slices.ContainsFunc(excluded, func(other object) bool { return isSameObject(o, other) })
	})
}

func names(objects []object) string {
	var all []string
	for _, o := range objects {
		all = append(all, o.String())
	}
	return strings.Join(all, ", ")
}

// inventory returns the objects in the inventory of the module's Manifest, and the module's default CR.
func inventory(ctx context.Context, r *fleet.Runtime, module string) ([]object, error) {
	manifest := &v1beta2.Manifest{}
	if err := r.API.Get(ctx, client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: module},
		manifest); err != nil {
		return nil, fmt.Errorf("read the Manifest of %s in %s: %w", module, r.ID, err)
	}
	var all []object
	for _, s := range manifest.Status.Synced {
		all = append(all, object{
			schema.GroupVersionKind(s.GroupVersionKind), client.ObjectKey{Namespace: s.Namespace, Name: s.Name},
		})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the Manifest of %s in %s does not list objects", module, r.ID)
	}
	if cr := manifest.Spec.Resource; cr != nil {
		o := object{cr.GroupVersionKind(), client.ObjectKeyFromObject(cr)}
		namespaced, err := r.API.IsObjectNamespaced(cr)
		if err != nil {
			return nil, fmt.Errorf("get the scope of %s in %s: %w", o, r.ID, err)
		}
		if namespaced && o.Namespace == "" {
			o.Namespace = v1beta2.RuntimeNamespace // the agent's default namespace
		}
		all = append(withoutObjects(all, []object{o}), o)
	}
	return all, nil
}

// read returns an object in a runtime, or nil if it does not exist.
func read(ctx context.Context, r *fleet.Runtime, o object) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(o.GroupVersionKind)
	err := r.API.Get(ctx, o.ObjectKey, found)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s in %s: %w", o, r.ID, err)
	}
	return found, nil
}

// mustRead is like read, but returns an error if the object does not exist.
func mustRead(ctx context.Context, r *fleet.Runtime, o object) (*unstructured.Unstructured, error) {
	found, err := read(ctx, r, o)
	if err == nil && found == nil {
		err = fmt.Errorf("%s is missing in %s", o, r.ID)
	}
	return found, err
}

// uids returns the UIDs of objects. All objects must exist.
func uids(ctx context.Context, r *fleet.Runtime, objects []object) (map[object]types.UID, error) {
	all := map[object]types.UID{}
	for _, o := range objects {
		found, err := mustRead(ctx, r, o)
		if err != nil {
			return nil, err
		}
		all[o] = found.GetUID()
	}
	return all, nil
}

// objectToDelete returns the object whose deletion does the least harm. It returns false if every deletion could lose
// data.
func objectToDelete(objects []object) (object, bool) {
	for _, kind := range []string{"ConfigMap", "Service", "ClusterRoleBinding", "RoleBinding", "ClusterRole", "Role",
		"ServiceAccount", "Deployment"} {
		if at := slices.IndexFunc(objects, func(o object) bool { return o.Kind == kind }); at >= 0 {
			return objects[at], true
		}
	}
	return object{}, false
}

// change edits a field of o that the module sets. It returns the path of the field, or nil if no field is safe to
// change.
func change(o *unstructured.Unstructured) []string {
	switch o.GetKind() {
	case "ConfigMap":
		if o.Object["immutable"] == true {
			return nil
		}
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		for key := range data {
			data[key] = "changed by a person"
			// data is already a map of strings
			_ = unstructured.SetNestedStringMap(o.Object, data, "data")
			return []string{"data"}
		}
	case "ClusterRole", "Role":
		if rules, _, _ := unstructured.NestedSlice(o.Object, "rules"); len(rules) > 0 &&
			o.Object["aggregationRule"] == nil {
			_ = unstructured.SetNestedSlice(o.Object, []any{}, "rules")
			return []string{"rules"}
		}
	case "Deployment", "StatefulSet", "DaemonSet":
		path := []string{"spec", "template", "spec", "containers"}
		containers, _, _ := unstructured.NestedSlice(o.Object, path...)
		if len(containers) == 0 {
			return nil
		}
		first, isMap := containers[0].(map[string]any)
		if !isMap {
			return nil
		}
		first["image"] = "example.invalid/changed-by-a-person"
		_ = unstructured.SetNestedSlice(o.Object, containers, path...)
		return path
	}
	return nil
}
