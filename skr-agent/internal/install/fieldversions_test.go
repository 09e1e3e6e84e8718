package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// The API server rejects server-side apply for a custom resource if its managedFields refer to a version that the CRD
// does not have anymore.
func TestCustomResourceIsUpdatedAfterCRDVersionRemoval(t *testing.T) {
	w := newWorld(t)
	crdVersion := func(name, storage string) string {
		return "\n  - {name: " + name + ", served: true, storage: " + storage +
			", schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}"
	}
	content := func(versions, apiVersion, spec string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: pumps.example.org}\n" +
			"spec:\n  group: example.org\n  scope: Namespaced\n  names: {kind: Pump, plural: pumps}\n  versions:" + versions +
			"\n---\napiVersion: example.org/" + apiVersion + "\nkind: Pump\nmetadata: {name: one}\nspec: " + spec + "\n"
	}
	both := crdVersion("v1alpha1", "false") + crdVersion("v1", "true")
	w.wants("pump", content(both, "v1alpha1", "{size: 1, dropped: true}"), version("1.0.0"))
	w.state("pump", v1beta2.StateReady, "")
	live := custom("example.org/v1", "Pump", home, "one")
	before := w.uid(live, "one")

	w.wants("pump", content(crdVersion("v1", "true"), "v1", "{size: 2}"), version("2.0.0"))
	w.eventually("the object has the new spec", func() bool {
		size, _, _ := unstructured.NestedInt64(live.Object, "spec", "size")
		return w.exists(live, home, "one") && size == 2
	})
	w.state("pump", v1beta2.StateReady, "")
	require.Equal(t, before, live.GetUID())
	require.NotContains(t, live.Object["spec"], "dropped", "the agent must still own the dropped field")
}
