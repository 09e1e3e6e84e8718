package planning

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/readiness"
)

// builtIn reports whether a kind is namespaced in a cluster without CRDs.
func builtIn(gvk schema.GroupVersionKind) (bool, error) {
	switch gvk.Kind {
	case "Namespace", "ClusterRole", "CustomResourceDefinition", "PriorityClass":
		return false, nil
	case "ConfigMap", "Deployment":
		return true, nil
	}
	return false, content.ErrUnknownKind
}

func objects(t *testing.T, yaml string) []*unstructured.Unstructured {
	t.Helper()
	found, err := render.Render(render.Input{Content: []byte(yaml), Packed: v1beta2.OCIRef})
	require.NoError(t, err)
	return found
}

func named(resources []v1beta2.Resource) string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = object.KeyOf(r).String()
	}
	return strings.Join(names, ", ")
}

func resource(kind, group, name string) v1beta2.Resource {
	return v1beta2.Resource{
		Name: name, GroupVersionKind: metav1.GroupVersionKind{Group: group, Version: "v1", Kind: kind},
	}
}

func TestPlanAppliesCRDsFirstAndPrunesOldObjects(t *testing.T) {
	before := []v1beta2.Resource{
		resource("ClusterRole", "rbac.authorization.k8s.io", "old-role"),
		resource("CustomResourceDefinition", "apiextensions.k8s.io", "old-crd"),
		{
			Name:             "sample-config",
			Namespace:        "kyma-system",
			GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		},
		{
			Name:             "old-config",
			Namespace:        "kyma-system",
			GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		},
	}
	p, err := makePlan(objects(t, sampleExtra+"---\n"+sampleRest+"---"+sampleCRD), sample("default", ""), before,
		sampleOwner, builtIn)
	require.NoError(t, err)
	require.Equal(t, "CustomResourceDefinition samples.example.kyma-project.io, ClusterRole sample-role",
		named(object.ResourcesOf(p.Stages[0])))
	require.Equal(t, "ConfigMap kyma-system/sample-config, ConfigMap kyma-system/sample-extra, "+
		"Deployment kyma-system/sample-manager", named(object.ResourcesOf(p.Stages[2])))
	require.Equal(t, "Sample kyma-system/bundled", named(object.ResourcesOf(p.Stages[3])))
	require.Equal(t, "Namespace kyma-system", named(object.ResourcesOf(p.Shared)))
	require.Equal(t, "Sample kyma-system/default", guard.KeyOf(p.DefaultCR).String())
	require.Len(t, p.Inventory, 6)
	require.Equal(t, "ConfigMap kyma-system/old-config, CustomResourceDefinition old-crd, ClusterRole old-role",
		named(p.Prune))
	require.Nil(t, p.Shared[0].GetAnnotations())
	for _, o := range p.Stages[2] {
		require.Equal(t, "kyma-system/sample", o.GetAnnotations()[v1beta2.AnnotationOwnedBy])
		require.Equal(t, "sample", o.GetLabels()[v1beta2.LabelModuleName])
	}
}

func TestPlanRefusesInvalidContent(t *testing.T) {
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"
	for name, c := range map[string]struct{ yaml, want string }{
		"same object with and without a namespace": {
			config + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kyma-system}",
			"ConfigMap kyma-system/a is in the content twice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := makePlan(objects(t, c.yaml), nil, nil, sampleOwner, builtIn)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestPlanOmitsObjectsOfUnknownKinds(t *testing.T) {
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"
	inKymaSystem := func(r v1beta2.Resource) v1beta2.Resource { r.Namespace = "kyma-system"; return r }
	for name, c := range map[string]struct {
		yaml      string
		defaultCR *unstructured.Unstructured
		before    []v1beta2.Resource
		unknown   string
		prune     string
	}{
		"unknown kind": {
			config + "apiVersion: example.org/v1\nkind: Nothing\nmetadata: {name: x}", nil, nil,
			"Nothing x (example.org/v1): the API server does not serve", "",
		},
		"unknown kind with an installed object": {
			config + "apiVersion: example.org/v1\nkind: Nothing\nmetadata: {name: x}",
			nil,
			[]v1beta2.Resource{
				inKymaSystem(resource("Nothing", "example.org", "x")),
				inKymaSystem(resource("Nothing", "example.org", "y")),
			},
			"Nothing x (example.org/v1)", "Nothing kyma-system/y"},
		"version that the CRD does not serve": {
			config + sampleCRD + "apiVersion: example.kyma-project.io/v2\nkind: Sample\nmetadata: {name: x}", nil, nil,
			"Sample x (example.kyma-project.io/v2)", "",
		},
		"default CR of an unknown kind": {config, sample("default", ""), []v1beta2.Resource{
			inKymaSystem(resource("Sample", "example.kyma-project.io", "default")),
		},
			"default CR Sample kyma-system/default", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := makePlan(objects(t, c.yaml), c.defaultCR, c.before, sampleOwner, builtIn)
			require.NoError(t, err)
			require.Equal(t, "ConfigMap kyma-system/a", named(object.ResourcesOf(p.Stages[2])))
			require.Len(t, p.Unknown, 1)
			require.Contains(t, p.Unknown[0], c.unknown)
			require.Equal(t, c.prune, named(p.Prune))
			require.Equal(t, v1beta2.ReasonUnknownKind, p.LeftOut().Reason)
		})
	}
}

func TestObjectIsOwnedByOneModule(t *testing.T) {
	a := resource("ConfigMap", "", "a")
	manifest := func(name string, age time.Duration, synced ...v1beta2.Resource) v1beta2.Manifest {
		m := v1beta2.Manifest{}
		m.Name, m.UID, m.Status.Synced = name, types.UID(name), synced
		m.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0).Add(-age))
		return m
	}
	offering := func(m v1beta2.Manifest) v1beta2.Manifest {
		m.Spec.Resource = &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}},
		}
		return m
	}
	defaultCR := func(m *v1beta2.Manifest) (v1beta2.Resource, bool) {
		if m.Spec.Resource == nil {
			return v1beta2.Resource{}, false
		}
		return object.ResourceOf(m.Spec.Resource), true
	}
	content := Plan{Inventory: []v1beta2.Resource{a}}
	onlyDefault := Plan{DefaultCR: offering(manifest("", 0)).Spec.Resource}
	for name, c := range map[string]struct {
		me, other v1beta2.Manifest
		wanted    Plan
		refused   bool
	}{
		"no Manifest owns the object": {manifest("me", 0), manifest("other", 0), content, false},
		"other Manifest owns the object": {
			manifest("me", time.Hour), manifest("other", 0, a), content, true,
		},
		"both Manifests own the object, and the other one is older": {
			manifest("me", 0, a), manifest("other", time.Hour, a), content, true,
		},
		"both Manifests own the object, and this one is older": {
			manifest("me", time.Hour, a), manifest("other", 0, a), content, false,
		},
		"cached copy of this Manifest": {manifest("me", 0), manifest("me", 0, a), content, false},
		"object is the other Manifest's default CR": {
			manifest("me", time.Hour), offering(manifest("other", 0)), content, true,
		},
		"owned object is the other Manifest's default CR": {
			manifest("me", 0, a), offering(manifest("other", time.Hour)), content, false,
		},
		"default CR is part of the other Manifest's content": {
			offering(manifest("me", time.Hour)), manifest("other", 0, a), onlyDefault, true,
		},
		"both Manifests have the same default CR": {
			offering(manifest("me", 0)), offering(manifest("other", time.Hour)), onlyDefault, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var others []*v1beta2.Manifest
			if c.other.Name != c.me.Name {
				others = append(others, &c.other)
			}
			for _, isSet := range []bool{false, true} {
				takes, conflict, err := ClaimedByOther(&c.me, c.wanted, others, defaultCR,
					func(*v1beta2.Manifest, guard.Key) (bool, error) { return isSet, nil })
				require.NoError(t, err)
				_, isDefaultCR := defaultCR(&c.other)
				has := c.other.Name != c.me.Name && (len(c.other.Status.Synced) > 0 ||
					isDefaultCR && len(c.me.Status.Synced) == 0)
				if !isSet || !has {
					require.Equal(t, c.refused, conflict != "", conflict)
					require.Empty(t, takes)
					continue
				}
				require.Empty(t, conflict)
				require.Equal(t, map[guard.Key]string{object.KeyOf(a): "/other"}, takes)
			}
		})
	}
}

func TestRemovalDeletesCRDsRBACAndNamespacesLast(t *testing.T) {
	stages := RemovalStages([]v1beta2.Resource{
		resource("Namespace", "", "n"),
		resource("ClusterRole", "rbac.authorization.k8s.io", "r"),
		resource("ServiceAccount", "", "s"),
		resource("CustomResourceDefinition", "apiextensions.k8s.io", "d"),
		resource("Deployment", "apps", "w"),
		resource("Ingress", "networking.k8s.io", "i"),
		resource("Gateway", "networking.istio.io", "c"),
		resource("ValidatingWebhookConfiguration", "admissionregistration.k8s.io", "v"),
	})
	var order []string
	for _, s := range stages {
		order = append(order, named(s))
	}
	require.Equal(t, []string{
		"ValidatingWebhookConfiguration v", "Gateway c", "Deployment w, Ingress i", "CustomResourceDefinition d",
		"ClusterRole r, ServiceAccount s", "Namespace n",
	}, order)
}

func TestCustomResourcesAreRemovedBeforeOperator(t *testing.T) {
	gate := resource("Gateway", "gateway.networking.k8s.io", "x")
	require.True(t, readiness.HasStatus(gate))
	stages := RemovalStages([]v1beta2.Resource{resource("Deployment", "apps", "operator"), gate})
	require.Equal(t, "Gateway x", named(stages[0]))
	of := func(version, kind string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	}
	require.Equal(t, 3, stageOf(of("gateway.networking.k8s.io/v1", "Gateway")))
	require.Equal(t, 2, stageOf(of("networking.k8s.io/v1", "Ingress")))
}

var sampleOwner = object.Owner{OwnedBy: "kyma-system/sample", Module: "sample", Namespace: "kyma-system"}

func TestHookJobsAreOrderedByPhaseAndWeight(t *testing.T) {
	job := func(name, hook, weight string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", annotations: {helm.sh/hook: '" + hook +
			"', helm.sh/hook-weight: '" + weight + "'}}\n---\n"
	}
	content := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: operator}\n---\n" +
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: plain}\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata: {name: secret}\n---\n" +
		"apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: zone}\n---\n" +
		job("a-second", "pre-install, pre-upgrade", "5") + job("z-first", "pre-install", "-5") +
		job("a-last", "post-install", "1") + job("z-later", "post-install,post-upgrade", "0")
	namespaced := func(schema.GroupVersionKind) (bool, error) { return true, nil }
	p, err := makePlan(objects(t, content), nil, nil, sampleOwner, namespaced)
	require.NoError(t, err)
	var names []string
	for _, o := range p.Stages[2] {
		names = append(names, o.GetName())
	}
	require.Equal(t, []string{"secret", "z-first", "a-second", "operator", "plain", "zone", "z-later", "a-last"}, names)
}
