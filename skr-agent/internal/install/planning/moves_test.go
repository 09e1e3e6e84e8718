package planning

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

const noObject, plainObject = "", "plain"

// claimsOf returns the claims of a module whose content is the sample CRD. declared is the CRD's annotation as
// NAME=MODULE, plainObject for a CRD without an annotation, or noObject for content without the CRD.
func claimsOf(t *testing.T, module, declared string) (Plan, Claims) {
	t.Helper()
	owner := object.Owner{OwnedBy: "kyma-system/" + module, Module: module, Namespace: "kyma-system"}
	content := objects(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+module+"}\n")
	if declared != noObject {
		definition := objects(t, sampleCRD)[0]
		if name, partner, declares := strings.Cut(declared, "="); declares {
			definition.SetAnnotations(map[string]string{"kyma-pull.dev/" + name: partner})
		}
		content = append(content, definition)
	}
	p, err := makePlan(content, nil, nil, owner, builtIn)
	require.NoError(t, err)
	return p, p.Claims(module)
}

var crdKey = guard.Key{
	Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "samples.example.kyma-project.io",
}

func TestModuleVersionsDecideWhoOwnsAMovedObject(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		// aHas and bHas are true if the module's plan contains the object.
		aHas, bHas bool
	}{
		"before the move":                               {plainObject, noObject, true, false},
		"only the previous owner is upgraded":           {"moves-to=b", noObject, true, false},
		"only the next owner is upgraded":               {plainObject, "moves-from=a", true, false},
		"both are upgraded":                             {"moves-to=b", "moves-from=a", false, true},
		"previous owner omits the object":               {noObject, "moves-from=a", false, true},
		"next owner has dropped the annotation":         {"moves-to=b", plainObject, false, true},
		"after the move":                                {noObject, plainObject, false, true},
		"next owner takes without the owner's consent":  {plainObject, plainObject, true, true},
		"move to a third module":                        {"moves-to=c", plainObject, true, true},
		"move from a third module":                      {plainObject, "moves-from=c", true, true},
		"both modules give the object away":             {"moves-to=b", "moves-to=a", true, true},
		"both modules take the object from each other":  {"moves-from=b", "moves-from=a", true, true},
		"previous owner names itself":                   {"moves-to=a", plainObject, true, true},
		"next owner declares a move to a third module":  {"moves-to=b", "moves-to=c", false, true},
		"previous owner is rolled back with annotation": {plainObject, "moves-from=a", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, a := claimsOf(t, "a", c.a)
			q, b := claimsOf(t, "b", c.b)
			p.Yield(Yields(a, []Claims{b}), nil)
			q.Yield(Yields(b, []Claims{a}), nil)
			require.Equal(t, c.aHas, object.KeysOf(p.Inventory).Has(crdKey))
			require.Equal(t, c.bHas, object.KeysOf(q.Inventory).Has(crdKey))
			require.Equal(t, c.aHas, len(p.Stages[0]) == 1)
			require.Len(t, p.Stages[2], 1, "other objects stay")
			require.Equal(t, a.Objects, p.Claims("a").Objects, "the claims include objects that the module leaves")
		})
	}
}

func TestMovedObjectIsPrunedOnlyFromTheInventory(t *testing.T) {
	p, a := claimsOf(t, "a", "moves-to=b")
	_, b := claimsOf(t, "b", "moves-from=a")
	before := []v1beta2.Resource{resource("ClusterRole", "rbac.authorization.k8s.io", "old")}
	inventory := append(before, p.Inventory...)
	p.Prune = before
	p.Yield(Yields(a, []Claims{b}), inventory)
	require.Equal(t, "CustomResourceDefinition samples.example.kyma-project.io, ClusterRole old", named(p.Prune))
	require.Empty(t, p.PendingMoves())

	p, _ = claimsOf(t, "a", "moves-to=b")
	require.Equal(t, []string{"CustomResourceDefinition samples.example.kyma-project.io moves to module b once " +
		"that module's version contains the object"}, p.PendingMoves())
	require.Equal(t, []string{"b"}, p.Moves.Modules())
	p, b = claimsOf(t, "b", "moves-from=a")
	_, a = claimsOf(t, "a", plainObject)
	p.Yield(Yields(b, []Claims{a}), nil)
	require.Equal(t, []string{"CustomResourceDefinition samples.example.kyma-project.io moves from module a once " +
		"that module's version releases the object"}, p.PendingMoves())
}
