// Package contenttest contains module content for tests of package content's callers. `component create` and the agent
// must accept and refuse the same content.
package contenttest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Case is a module's content.
type Case struct {
	Name, YAML string
	// Refused is a part of the error, or "" if the content is accepted.
	Refused string
}

const (
	config     = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"
	definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n" +
		"metadata: {name: foos.example.org}\nspec: {group: example.org, names: {kind: Foo, plural: foos}, " +
		"versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}], scope: "
	twice = "is in the content twice"
)

func configWith(annotation string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {kyma-pull.dev/ignore-fields: '" +
		annotation + "'}}\n"
}

func foo(namespace string) string {
	return "\n---\napiVersion: example.org/v1\nkind: Foo\nmetadata: {name: a, namespace: " + namespace + "}\n"
}

// Cases returns module content with the expected results.
func Cases() []Case {
	return []Case{
		{"a ConfigMap", config, ""},
		{"valid ignored fields", configWith("/data/a"), ""},
		{"an ignored field that is not a JSON pointer", configWith("data/a"), "is not a JSON pointer"},
		{"ignored fields that are not a JSON array", configWith("[/data]"), "is not a JSON array of pointers"},
		{"an ignored field that identifies the object", configWith("/metadata/name"), "identifies the object"},
		{
			"an invalid ignored field in an object of an unknown kind",
			config + "apiVersion: example.org/v1\nkind: Foo\n" +
				"metadata: {name: a, annotations: {kyma-pull.dev/ignore-fields: spec}}\n",
			"is not a JSON pointer",
		},
		{
			"an object with and without the default namespace",
			config + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kyma-system}", twice,
		},
		{
			"an object in two namespaces",
			config + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}", "",
		},
		{
			"a ClusterRole with and without a namespace",
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n---\n" +
				"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a, namespace: b}",
			twice,
		},
		{"a cluster-scoped CR with and without a namespace", definition + "Cluster}" + foo("''") + foo("b"), twice},
		{"a cluster-scoped CR in two namespaces", definition + "Cluster}" + foo("b") + foo("c"), twice},
		{"a namespaced CR in two namespaces", definition + "Namespaced}" + foo("''") + foo("c"), ""},
		{"a CR of an unknown kind in two namespaces", config + foo("b") + foo("c"), ""},
		{"a CR of an unknown kind with and without the default namespace", config + foo("''") + foo("kyma-system"), twice},
		{
			"an object of the agent",
			"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-key}", "the name is reserved for the agent",
		},
	}
}

// Object parses an object in YAML. Unlike package render, it accepts objects that cannot be installed, and keeps the
// fields that only an API server sets.
func Object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(encoded); err != nil {
		t.Fatal(err)
	}
	return o
}
