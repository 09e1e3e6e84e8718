package content

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/internal/content/contenttest"
)

func TestDropForeignFieldsRemovesInjectedFields(t *testing.T) {
	const certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUI=" // start of a PEM block that does not end
	full := "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
	caOf := func(o *unstructured.Unstructured) any {
		if holders := caHolders(o); len(holders) == 1 {
			return holders[0]["caBundle"]
		}
		return "no holder"
	}
	for name, c := range map[string]struct {
		yaml string
		want any
	}{
		"CA bundle with a line break only": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: " +
				"x}\nwebhooks: [{name: a, clientConfig: {caBundle: Cg==}}]", nil,
		},
		"empty CA bundle": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: " +
				"x}\nwebhooks: [{name: a, clientConfig: {caBundle: ''}}]", nil,
		},
		"CA bundle without PEM data": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: x}\nspec: {caBundle: " +
				"Y2FCdW5kbGU=}", nil,
		},
		"truncated certificate": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: x}\nspec: {caBundle: " +
				certificate + "}", nil,
		},
		"valid certificate": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: x}\nspec: {caBundle: " + full +
				"}", full,
		},
		"valid certificate with an injector annotation": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: x, annotations: " +
				"{cert-manager.io/inject-ca-from: a/b}}\nspec: {caBundle: " + full + "}", nil,
		},
		"valid certificate with OpenShift's older injector annotation": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: x, annotations: " +
				"{service.alpha.openshift.io/inject-cabundle: 'true'}}\nspec: {caBundle: " + full + "}", nil,
		},
		"conversion webhook of a CRD": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec: " +
				"{conversion: {webhook: {clientConfig: {caBundle: Cg==}}}}", nil,
		},
		"field caBundle in a ConfigMap": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {caBundle: Cg==}", "no holder",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := contenttest.Object(t, c.yaml)
			dropForeignFields(o)
			require.Equal(t, c.want, caOf(o))
		})
	}

	role := contenttest.Object(
		t,
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\naggregationRule: "+
			"{clusterRoleSelectors: [{matchLabels: {a: b}}]}\nrules: []",
	)
	dropForeignFields(role)
	require.NotContains(t, role.Object, "rules")
	role = contenttest.Object(t,
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\nrules: []")
	dropForeignFields(role)
	require.Contains(t, role.Object, "rules")
}

func TestDropForeignFieldsRemovesLeaseHolder(t *testing.T) {
	o := contenttest.Object(t,
		"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: x}\nspec: {holderIdentity: a, "+
			"acquireTime: b, renewTime: c, leaseTransitions: 1, leaseDurationSeconds: 15}")
	dropForeignFields(o)
	require.Equal(t, map[string]any{"leaseDurationSeconds": int64(15)}, o.Object["spec"])
}

func TestIgnoredFieldsAreJSONPointers(t *testing.T) {
	of := func(value string) ([]Pointer, error) {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap"}}
		o.SetName("x")
		o.SetAnnotations(map[string]string{"kyma-pull.dev/ignore-fields": value})
		return IgnoredFields(o)
	}
	for value, want := range map[string][]Pointer{
		"":                                 nil,
		"/spec/replicas":                   {{"spec", "replicas"}},
		"/data/a, /data/b\n/data/c":        {{"data", "a"}, {"data", "b"}, {"data", "c"}},
		`["/metadata/labels/example~1x"]`:  {{"metadata", "labels", "example/x"}},
		"/data/a~01":                       {{"data", "a~1"}},
		"/spec/template/spec/containers/0": {{"spec", "template", "spec", "containers", "0"}},
	} {
		got, err := of(value)
		require.NoError(t, err, value)
		require.Equal(t, want, got, value)
	}
	for value, message := range map[string]string{
		"spec.replicas":  `ConfigMap x: annotation kyma-pull.dev/ignore-fields: "spec.replicas" is not a JSON pointer`,
		"/":              "is not a JSON pointer",
		"[/spec]":        "is not a JSON array of pointers",
		"/metadata":      "which identifies the object or its owner",
		"/metadata/name": "which identifies the object or its owner",
		"/metadata/annotations/operator.kyma-project.io~1owned-by": "which identifies the object or its owner",
		"/metadata/labels": "which identifies the object or its owner",
		"/kind":            "which identifies the object or its owner",
	} {
		_, err := of(value)
		require.ErrorContains(t, err, message, value)
	}
}
