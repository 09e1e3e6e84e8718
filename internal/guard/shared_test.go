package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestOnlyNameAndLabelsOfSharedNamespacesAreApplied(t *testing.T) {
	o := objects(t, `apiVersion: v1
kind: Namespace
metadata:
  name: kyma-system
  labels: {a: b, app.kubernetes.io/instance: gitops, argocd.argoproj.io/instance: gitops, applyset.kubernetes.io/part-of: x, app.kubernetes.io/name: namespace}
  annotations: {openshift.io/node-selector: no=where}
  finalizers: [thief.example/hold]
spec: {finalizers: [thief.example/hold]}
status: {phase: Active}
`)[0]
	require.Equal(t, map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{
			"name":   "kyma-system",
			"labels": map[string]any{"a": "b", "app.kubernetes.io/name": "namespace"},
		},
	}, NameAndLabels(o).Object)
	require.Len(t, o.GetLabels(), 5, "the original object must not change")
}

func TestContentWithOwnerReferencesIsRefused(t *testing.T) {
	const owner = "ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: gone, uid: 1111}]"
	for name, c := range map[string]struct{ yaml, rule string }{
		"ConfigMap with an owner": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: mine, " + owner + "}", "owner",
		},
		"namespace of the module with an owner": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: mine, " + owner + "}", "owner",
		},
		"namespace kyma-system with an owner": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, " + owner + "}", "shared-namespace",
		},
		"unknown kube- namespace with an owner": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-later, " + owner + "}", "shared-namespace",
		},
		"namespace kube-system with a finalizer": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system, finalizers: [a.example/b]}",
			"shared-namespace",
		},
		"namespace kyma-system with selected nodes": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, annotations: {openshift.io/node-selector: a=b}}",
			"shared-namespace",
		},
		"namespace default with a spec": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\nspec: {finalizers: []}",
			"shared-namespace-spec",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var refusal *Refusal
			require.ErrorAs(t, Check(objects(t, c.yaml), home), &refusal)
			require.Equal(t, c.rule, refusal.Rule)
		})
	}
	empty := objects(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system}\nspec: {}\nstatus: {}")
	require.NoError(t, Check(empty, home))
}

func TestPriorityLevelSharesAreLimitedInTotal(t *testing.T) {
	level := func(name string) *unstructured.Unstructured {
		return objects(t,
			"apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: PriorityLevelConfiguration\nmetadata: {name: "+name+
				"}\nspec: {type: Limited, limited: {nominalConcurrencyShares: 60}}")[0]
	}
	require.NoError(t, Check([]*unstructured.Unstructured{level("a")}, home))
	require.ErrorContains(t, Check([]*unstructured.Unstructured{level("a"), level("b")}, home),
		"the sum of spec.limited.nominalConcurrencyShares in the module's priority levels is 120: use at most 100")
}

func TestGuardRuleNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range listRules() {
		require.NotEmpty(t, r.name)
		require.False(t, seen[r.name], r.name)
		seen[r.name] = true
	}
	require.NotEmpty(t, ContentOnlyReason("unknown"))
}
