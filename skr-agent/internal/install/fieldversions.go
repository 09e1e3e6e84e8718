package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namesLostVersion reports whether an apply failed because managedFields of a custom resource contain a version that
// the CRD does not define anymore. The API server then refuses every apply of the object.
//
// Source: Kubernetes, apiextensions-apiserver, pkg/apiserver/conversion: ConvertToVersion.
func namesLostVersion(err error) bool {
	return apierrors.IsInternalError(err) &&
		strings.Contains(err.Error(), "request to convert CR to an invalid group/version")
}

// replaceLostVersions sets the version of managedFields entries to the version of o, if the API server does not serve
// theirs. The entries keep their managers and fields, so a later apply still removes fields that the agent drops.
func (a *actor) replaceLostVersions(ctx context.Context, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	served, err := a.servedVersions(gvk.GroupKind())
	if err != nil {
		return err
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(gvk)
	if err := a.cluster.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return err
	}
	entries := live.ManagedFields
	for n := range entries {
		gv, err := schema.ParseGroupVersion(entries[n].APIVersion)
		if err == nil && gv.Group == gvk.Group && !slices.Contains(served, gv.Version) {
			entries[n].APIVersion = o.GetAPIVersion()
		}
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": live.ResourceVersion},
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
	})
	if err != nil {
		return err
	}
	if err := a.cluster.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("replace the lost versions in managedFields: %w", err)
	}
	return nil
}
