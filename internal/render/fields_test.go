package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestUnknownFieldsOfBuiltInKindsAreFound(t *testing.T) {
	objects, err := Render(Input{Content: []byte(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: kyma-system, lables: {x: y}}
spec:
  replica: 3
  template: {spec: {containers: [{name: c, image: x, resourcess: {}, env: [{name: A, value: b}]}]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: role}
rules: [{apiGroup: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: Service
metadata: {name: correct, annotations: {a: b}}
spec: {ports: [{port: 80, targetPort: http}]}
---
apiVersion: example.org/v1
kind: Deployment
metadata: {name: custom}
anything: {goes: here}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong-type}
data: {a: 1}
`)})
	require.NoError(t, err)
	var unknown []string
	for _, o := range objects {
		unknown = append(unknown, UnknownFields(o)...)
	}
	require.ElementsMatch(t, []string{
		`Deployment kyma-system/a: unknown field "metadata.lables"`,
		`Deployment kyma-system/a: unknown field "spec.replica"`,
		`Deployment kyma-system/a: unknown field "spec.template.spec.containers[0].resourcess"`,
		`ClusterRole role: unknown field "rules[0].apiGroup"`,
	}, unknown)
}

func TestKindsThatAreNeverStoredAreNotInstallable(t *testing.T) {
	for _, gvk := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Status"}, {Version: "v1", Kind: "Binding"}, {Version: "v1", Kind: "DeleteOptions"},
		{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"},
		{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"},
		{Group: "authorization.k8s.io", Version: "v9", Kind: "SelfSubjectRulesReview"},
		{Group: "policy", Version: "v1", Kind: "Eviction"}, {Group: "autoscaling", Version: "v1", Kind: "Scale"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "ConversionReview"},
	} {
		require.ErrorIs(t, CheckInstallable(gvk), ErrNotInstallable, gvk.String())
	}
	for _, gvk := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Event"},
		{Group: "authorization.example.org", Version: "v1", Kind: "SubjectAccessReview"},
		{Group: "example.org", Version: "v1", Kind: "Status"}, {Group: "apps", Version: "v9", Kind: "Deployment"},
		{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"},
	} {
		require.NoError(t, CheckInstallable(gvk), gvk.String())
	}
}

func TestErrorForMisspelledKindSuggestsCorrectKind(t *testing.T) {
	for _, c := range []struct{ group, kind, want string }{
		{"", "configmap", "ConfigMap"}, {"", "Configmaps", "ConfigMap"},
		{"networking.k8s.io", "networkpolicies", "NetworkPolicy"},
		{"apiextensions.k8s.io", "customResourceDefinition", "CustomResourceDefinition"},
		{"apiregistration.k8s.io", "apiservice", "APIService"},
		{"rbac.authorization.k8s.io", "ClusterRoleBindings", "ClusterRoleBinding"},
		{"admissionregistration.k8s.io", "validatingwebhookconfiguration", "ValidatingWebhookConfiguration"},
	} {
		gvk := schema.GroupVersionKind{Group: c.group, Version: "v1", Kind: c.kind}
		require.EqualError(t, CheckInstallable(gvk), "field kind must be spelled "+c.want)
	}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "example.org", Version: "v1", Kind: "configmap"}, {Version: "v1", Kind: "Gadget"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	} {
		require.NoError(t, CheckInstallable(gvk), gvk.String())
	}
}
