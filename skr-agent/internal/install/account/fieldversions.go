package account

import (
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replaceLostVersions changes the live object's managedFields: an entry whose API version is not served gets the
// version of o. It reports whether it changed an entry. Without this change, the API server rejects every apply request
// for a custom resource if one of the entries has a version that the CRD does not define anymore. The entries keep
// their managers and fields, so a later apply still removes fields that the agent drops.
//
// Source: Kubernetes, apiextensions-apiserver, pkg/apiserver/conversion: ConvertToVersion.
func (a *Account) replaceLostVersions(ctx context.Context, o *unstructured.Unstructured) (replaced bool, err error) {
	gvk := o.GroupVersionKind()
	served, err := a.servedVersions(gvk.GroupKind())
	if err != nil {
		return false, err
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(gvk)
	if err := a.Client.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return false, err
	}
	entries := live.ManagedFields
	for n := range entries {
		gv, err := schema.ParseGroupVersion(entries[n].APIVersion)
		if err == nil && gv.Group == gvk.Group && !slices.Contains(served, gv.Version) {
			entries[n].APIVersion, replaced = o.GetAPIVersion(), true
		}
	}
	if !replaced {
		return false, nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": live.ResourceVersion},
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
	})
	if err != nil {
		return false, err
	}
	return true, a.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch))
}
