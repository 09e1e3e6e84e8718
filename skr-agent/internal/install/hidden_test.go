package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// In this test, a separate module contains the CRDs for the custom resources.
func TestUnservedKindBlocksRemovalOnlyIfItsOwnCRDExists(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.wants("crds", crdOf("Widget", "shop.example")+crdOf("Widget", "eu.shop.example")+crdOf("Hammer", "shop.example"),
		version("1.0.0"))
	w.state("crds", v1beta2.StateReady, "")
	w.wants("orphaned", customText("Widget", "shop.example", "w")+aConfigMap("orphaned"), version("1.0.0"))
	w.wants("tools", crdOf("Tool", "shop.example")+customText("Hammer", "shop.example", "h")+aConfigMap("tools"),
		version("1.0.0"))
	w.state("orphaned", v1beta2.StateReady, "")
	w.state("tools", v1beta2.StateReady, "")
	w.halt()
	hammers := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, w.client.Get(ctx, client.ObjectKey{Name: "hammers.shop.example"}, hammers))
	stored := hammers.Spec.Versions[0]
	serve := func(served bool) {
		require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(hammers), hammers))
		hammers.Labels, hammers.Annotations = nil, map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/gone"}
		stored.Served = served
		hammers.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{stored}
		require.NoError(t, w.client.Update(ctx, hammers))
	}
	serve(false)
	require.NoError(t, w.client.Delete(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.shop.example"},
	}))
	for _, module := range []string{"orphaned", "tools"} {
		w.remove(module)
	}
	// After its Manifest is deleted, module crds is not installed anymore, so the agent does not restore the CRDs.
	require.NoError(t, w.client.Delete(ctx, w.manifest("crds")))
	require.NoError(t, w.client.Patch(ctx, w.manifest("crds"),
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	w.start()

	t.Log("the CRD of the kind is gone, and a CRD of the same kind in a longer group exists")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "orphaned") })

	t.Log("the CRD of the kind serves no version, and the module has another CRD of this group")
	w.state("tools", v1beta2.StateDeleting,
		"may still exist: CustomResourceDefinition hammers.shop.example serves no version")
	serve(true)
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "tools") })
	require.False(t, w.exists(custom("shop.example/v1", "Hammer", home, "h"), home, "h"))
}

func TestCustomResourceWhoseCRDServesNoVersionIsPrunedLater(t *testing.T) {
	w := newWorld(t)
	served, group := crdOf("Hidden", "hidden.example"), "hidden.example"
	unserved := strings.ReplaceAll(served, "served: true", "served: false")
	require.NotEqual(t, served, unserved)
	w.wants("tools", served+"\n---\n"+customText("Hidden", group, "h"), version("1.0.0"))
	w.state("tools", v1beta2.StateReady, "")
	w.wants("tools", unserved, version("2.0.0"))
	w.state("tools", v1beta2.StateWarning,
		"may still exist: CustomResourceDefinition hiddens.hidden.example serves no version")
	require.Len(t, w.manifest("tools").Status.Synced, 2)
	w.wants("tools", served, version("3.0.0"))
	w.state("tools", v1beta2.StateReady, "")
	require.False(t, w.exists(custom(group+"/v1", "Hidden", home, "h"), home, "h"))

	t.Log("a CRD that serves no version does not wait for its custom resources")
	w.wants("tools", served+"\n---\n"+customText("Hidden", group, "h"), version("4.0.0"))
	w.state("tools", v1beta2.StateReady, "")
	w.wants("tools", unserved, version("5.0.0"))
	w.state("tools", v1beta2.StateWarning, "may still exist")
	w.wants("tools", aConfigMap("left"), version("6.0.0"))
	w.state("tools", v1beta2.StateWarning, "kept while it is in use by objects of kind Hidden that cannot be listed")
}
