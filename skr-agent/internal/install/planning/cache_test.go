package planning

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

func TestCachedPlanReturnsChangedObjects(t *testing.T) {
	objects, err := render.Render(render.Input{Content: []byte(crowd(300, 1, "example.org/one")), Release: "crowd"})
	require.NoError(t, err)
	hostile := newCrowdConfigMap("crowd-x\n{\"apiVersion\":\"v1\"}\n")
	by := object.Owner{OwnedBy: home + "/crowd", Module: "crowd", Namespace: home}
	whole, err := makePlan(append(objects, hostile), newCrowdConfigMap("other"), nil, by, builtIn)
	require.NoError(t, err)
	whole.Resources = outcome.Finding{OK: true, Reason: "Rendered", Message: "all"}
	s := NewCache()
	name := types.NamespacedName{Namespace: home, Name: "crowd"}
	s.Keep(name, "one", whole)
	t.Logf("%d objects take %d bytes", len(objects), s.bytes)
	require.Less(t, s.bytes, 16<<10)

	_, known := s.Changed(name, "two", object.Keys{})
	require.False(t, known, "a plan with other inputs must not be returned")
	changed := object.Keys{
		guard.KeyOf(hostile): {}, guard.Key{Group: "", Kind: "ConfigMap", Namespace: home, Name: "crowd-7"}: {},
		guard.Key{Group: "apps", Kind: "Deployment", Namespace: home, Name: "crowd-0"}: {},
		guard.Key{Group: "", Kind: "Secret", Namespace: home, Name: "x"}:               {},
	}
	part, known := s.Changed(name, "one", changed)
	require.True(t, known)
	want := whole
	want.KeepOnly(changed)
	require.Equal(t, want.Stages[2], part.Stages[2])
	require.Len(t, part.Stages[2], 3)
	require.Equal(t, whole.DefaultCR, part.DefaultCR)
	require.Equal(t, whole.Resources, part.Resources)

	s.Forget(name)
	require.Zero(t, s.bytes)
	_, known = s.Changed(name, "one", changed)
	require.False(t, known)
}
