package planning

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/content/contenttest"
)

// TestCreateAcceptsTheSameContentsAsAgents in package assemble checks the same content for `component create`.
func TestAgentRefusesForbiddenContent(t *testing.T) {
	with := func(foo func() (bool, error)) func(schema.GroupVersionKind) (bool, error) {
		return func(gvk schema.GroupVersionKind) (bool, error) {
			if gvk.Kind == "Foo" {
				return foo()
			}
			return gvk.Kind != "ClusterRole" && gvk.Kind != "CustomResourceDefinition", nil
		}
	}
	unknown := with(func() (bool, error) { return false, content.ErrUnknownKind })
	for name, scope := range map[string]func(schema.GroupVersionKind) (bool, error){
		"the kind Foo is unknown":        unknown,
		"the kind Foo is cluster-scoped": with(func() (bool, error) { return false, nil }),
		"the kind Foo is namespaced":     with(func() (bool, error) { return true, nil }),
	} {
		for _, c := range contenttest.Cases() {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				_, err := makePlan(objects(t, c.YAML), nil, nil, sampleOwner, scope)
				if c.Refused == "" {
					require.NoError(t, err)
				} else if name == "the kind Foo is unknown" {
					require.ErrorContains(t, err, c.Refused)
				}
			})
		}
	}
}

func TestObjectWithSeveralNamespacesIsLeftOut(t *testing.T) {
	const text = "apiVersion: example.org/v1\nkind: Foo\nmetadata: {name: a, namespace: b}\n---\n" +
		"apiVersion: example.org/v1\nkind: Foo\nmetadata: {name: a, namespace: c}\n"
	p, err := makePlan(objects(t, text), nil, nil, sampleOwner,
		func(schema.GroupVersionKind) (bool, error) { return false, nil })
	require.NoError(t, err)
	require.Equal(t, "Foo a", named(p.Inventory))
	require.Len(t, p.Unknown, 1)
	require.Contains(t, p.Unknown[0], "the kind is cluster-scoped in this cluster")
}
