package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

func TestJudge(t *testing.T) {
	see := func(yaml string) observation {
		o := liveObject(t, yaml)
		return observation{key: guard.KeyOf(o), object: o}
	}
	cr := func(name, status string) observation {
		return see("apiVersion: a.kyma-project.io/v1\nkind: A\nmetadata: {name: " + name + ", generation: 2}\n" +
			status)
	}
	deployment := func(status string) observation {
		return see(
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, generation: 1}\nspec: {replicas: 1}\nstatus: " +
				status,
		)
	}
	for name, c := range map[string]struct {
		seen    []observation
		state   v1beta2.State
		message string
	}{
		"nothing to look at": {nil, v1beta2.StateReady, "all objects are ready"},
		"an object that is not there": {
			[]observation{{key: key{Kind: "A", Name: "a"}}}, v1beta2.StateProcessing, "A a: does not exist yet",
		},
		"a deployment without a status": {[]observation{deployment("{}")}, v1beta2.StateProcessing, "Deployment d: "},
		"a deployment that gave up": {
			[]observation{
				deployment(
					`{observedGeneration: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}`),
			}, v1beta2.StateError, "Deployment d: Progress deadline exceeded",
		},
		"a CR without an observation": {[]observation{cr("a", "")}, v1beta2.StateReady, ""},
		"a CR that is ready":          {[]observation{cr("a", "status: {state: Ready}")}, v1beta2.StateReady, ""},
		"a CR that was ready as it was": {
			[]observation{cr("a", "status: {state: Ready, observedGeneration: 1}")}, v1beta2.StateProcessing,
			"A a: its controller has not seen",
		},
		"a CR that failed and reports the reason": {
			[]observation{
				cr("a", `status: {state: Error, conditions: [{type: Ready, status: "False", message: no disk}]}`),
			}, v1beta2.StateError, "A a: state is Error: no disk",
		},
		"a CR that warns": {
			[]observation{cr("a", "status: {state: Warning}")}, v1beta2.StateWarning, "A a: state is Warning",
		},
		"one on its way beats a warning": {
			[]observation{cr("a", "status: {state: Warning}"), cr("b", "status: {state: Processing}")},
			v1beta2.StateProcessing, "A b: state is Processing",
		},
		"one that failed beats them all": {
			[]observation{cr("a", "status: {state: Processing}"), cr("b", "status: {state: Error}")},
			v1beta2.StateError, "A b: state is Error",
		},
		"a CR with a state of its own": {[]observation{cr("a", "status: {state: Sleepy}")}, v1beta2.StateReady, ""},
		"more than a person wants to see": {
			[]observation{{key: key{Kind: "A", Name: "a"}}, {key: key{Kind: "A", Name: "b"}},
				{key: key{Kind: "A", Name: "c"}}, {key: key{Kind: "A", Name: "d"}}}, v1beta2.StateProcessing,
			"; and 1 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(c.seen)
			require.Equal(t, c.state, got.state, got.message)
			require.Contains(t, got.message, c.message)
		})
	}
}

func TestModuleConfiguresItsFields(t *testing.T) {
	checks := []v1beta2.CustomStateCheck{
		{
			JSONPath:    "status.health",
			Value:       "green",
			MappedState: v1beta2.StateReady,
		}, {JSONPath: "status.nodes", Value: "3", MappedState: v1beta2.StateReady},
		{
			JSONPath:    "status.health",
			Value:       "red",
			MappedState: v1beta2.StateError,
		}, {JSONPath: "status.health", Value: "yellow", MappedState: v1beta2.StateWarning},
		{JSONPath: ".status.health", Value: "gone", MappedState: v1beta2.StateDeleting},
	}
	for name, c := range map[string]struct {
		status  string
		state   v1beta2.State
		message string
	}{
		"all checks of a state hold": {
			"{health: green, nodes: 3}", v1beta2.StateReady, "status.health is green; status.nodes is 3",
		},
		"one of them does not": {
			"{health: green, nodes: 2}", v1beta2.StateProcessing, "status.nodes is 2",
		},
		"a field is missing":                 {"{health: green}", v1beta2.StateProcessing, "status.nodes is missing"},
		"an error counts more than the rest": {"{health: red, nodes: 3}", v1beta2.StateError, "status.health is red"},
		"a warning": {
			"{health: yellow, nodes: 3}", v1beta2.StateWarning, "status.health is yellow",
		},
		"a deletion is on its way":             {"{health: gone}", v1beta2.StateProcessing, "status.health is gone"},
		"the field of the same name elsewhere": {"{state: Ready}", v1beta2.StateProcessing, "status.health is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			o := liveObject(t, "apiVersion: a.kyma-project.io/v1\nkind: A\nmetadata: {name: a}\nstatus: "+c.status)
			got := judge([]observation{{key: guard.KeyOf(o), object: o, checks: checks}})
			require.Equal(t, c.state, got.state, got.message)
			if c.state != v1beta2.StateReady { // a module that is ready explains nothing
				require.Contains(t, got.message, c.message)
			}
		})
	}
}

// liveObject parses an object with the fields that only a server writes: render would drop them.
func liveObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	o := &unstructured.Unstructured{}
	require.NoError(t, o.UnmarshalJSON(encoded))
	return o
}
