package readiness

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content/contenttest"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

func TestModuleStateIsMostSevereState(t *testing.T) {
	see := func(yaml string) Observation {
		o := contenttest.Object(t, yaml)
		return Observation{Key: guard.KeyOf(o), Object: o}
	}
	cr := func(name, status string) Observation {
		return see("apiVersion: a.kyma-project.io/v1\nkind: A\nmetadata: {name: " + name + ", generation: 2}\n" +
			status)
	}
	deployment := func(status string) Observation {
		return see(
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, generation: 1}\nspec: {replicas: 1}\nstatus: " +
				status,
		)
	}
	for name, c := range map[string]struct {
		seen    []Observation
		state   v1beta2.State
		message string
	}{
		"no observed objects": {nil, v1beta2.StateReady, "all objects are ready"},
		"object does not exist": {
			[]Observation{{Key: guard.Key{Kind: "A", Name: "a"}}}, v1beta2.StateProcessing, "A a: the object does not exist yet",
		},
		"Deployment without a status": {[]Observation{deployment("{}")}, v1beta2.StateProcessing, "Deployment d: "},
		"Deployment exceeded its progress deadline": {
			[]Observation{
				deployment(
					`{observedGeneration: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}`),
			}, v1beta2.StateError, "Deployment d: Progress deadline exceeded",
		},
		"CR without a status": {[]Observation{cr("a", "")}, v1beta2.StateReady, ""},
		"CR with state Ready": {[]Observation{cr("a", "status: {state: Ready}")}, v1beta2.StateReady, ""},
		"CR with state Ready for an older generation": {
			[]Observation{cr("a", "status: {state: Ready, observedGeneration: 1}")}, v1beta2.StateProcessing,
			"A a: its controller has not observed",
		},
		"CR with state Error and a reason": {
			[]Observation{
				cr("a", `status: {state: Error, conditions: [{type: Ready, status: "False", message: no disk}]}`),
			}, v1beta2.StateError, "A a: state is Error: no disk",
		},
		"CR with state Warning": {
			[]Observation{cr("a", "status: {state: Warning}")}, v1beta2.StateWarning, "A a: state is Warning",
		},
		"Processing takes precedence over Warning": {
			[]Observation{cr("a", "status: {state: Warning}"), cr("b", "status: {state: Processing}")},
			v1beta2.StateProcessing, "A b: state is Processing",
		},
		"Error takes precedence over Processing": {
			[]Observation{cr("a", "status: {state: Processing}"), cr("b", "status: {state: Error}")},
			v1beta2.StateError, "A b: state is Error",
		},
		"CR with an unknown state": {[]Observation{cr("a", "status: {state: Sleepy}")}, v1beta2.StateReady, ""},
		"long list of objects is shortened": {
			[]Observation{{Key: guard.Key{Kind: "A", Name: "a"}}, {Key: guard.Key{Kind: "A", Name: "b"}},
				{Key: guard.Key{Kind: "A", Name: "c"}}, {Key: guard.Key{Kind: "A", Name: "d"}}}, v1beta2.StateProcessing,
			"; and 1 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ModuleState(c.seen)
			require.Equal(t, c.state, got.State, got.Message)
			require.Contains(t, got.Message, c.message)
		})
	}
}

// Reports contain messages from the modules' objects, and anyone with read access to the registry can read reports.
func TestModuleStateContainsNoSecretsFromObjects(t *testing.T) {
	const secret = "hunter2Hunter2"
	see := func(yaml string, checks ...v1beta2.CustomStateCheck) []Observation {
		o := contenttest.Object(t, yaml)
		return []Observation{{Key: guard.KeyOf(o), Object: o, Checks: checks}}
	}
	condition := `status: {state: Error, conditions: [{type: Ready, status: "False", message: "%s"}]}`
	const cr = "apiVersion: a.kyma-project.io/v1\nkind: A\nmetadata: {name: db-token}\n"
	for name, seen := range map[string][]Observation{
		"condition of a module CR with a URL":  see(cr + fmt.Sprintf(condition, "dial postgres://a:"+secret+"@db: no")),
		"condition of a module CR with a pair": see(cr + fmt.Sprintf(condition, "connect with password="+secret)),
		"condition for kstatus": see("apiVersion: a.example.org/v1\nkind: A\nmetadata: {name: db-token}\n" +
			`status: {conditions: [{type: Stalled, status: "True", message: "token: ` + secret + `"}]}`),
		"field of a custom state check": see(cr+"status: {token: "+secret+"}",
			v1beta2.CustomStateCheck{JSONPath: "status.token", Value: "x", MappedState: v1beta2.StateReady}),
		"error from the API server": {
			{Key: guard.Key{Kind: "A", Name: "db-token"}, Unreadable: "authorization: Bearer " + secret},
		},
	} {
		got := ModuleState(seen)
		require.NotContains(t, got.Message, secret, name)
		require.Contains(t, got.Message, "[masked]", name)
		require.Contains(t, got.Message, "A db-token: ", name)
	}
}

func TestCustomStateChecksDetermineState(t *testing.T) {
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
		"all checks of a state succeed": {
			"{health: green, nodes: 3}", v1beta2.StateReady, "status.health is green; status.nodes is 3",
		},
		"one check of a state fails": {
			"{health: green, nodes: 2}", v1beta2.StateProcessing, "status.nodes is 2",
		},
		"checked field is missing": {"{health: green}", v1beta2.StateProcessing, "status.nodes is missing"},
		"Error takes precedence":   {"{health: red, nodes: 3}", v1beta2.StateError, "status.health is red"},
		"check for Warning succeeds": {
			"{health: yellow, nodes: 3}", v1beta2.StateWarning, "status.health is yellow",
		},
		"check for Deleting succeeds": {"{health: gone}", v1beta2.StateProcessing, "status.health is gone"},
		"status.state is ignored":     {"{state: Ready}", v1beta2.StateProcessing, "status.health is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			o := contenttest.Object(t, "apiVersion: a.kyma-project.io/v1\nkind: A\nmetadata: {name: a}\nstatus: "+c.status)
			got := ModuleState([]Observation{{Key: guard.KeyOf(o), Object: o, Checks: checks}})
			require.Equal(t, c.state, got.State, got.Message)
			if c.state != v1beta2.StateReady { // the message of a ready module is constant
				require.Contains(t, got.Message, c.message)
			}
		})
	}
}

func TestImagePullFailureIsDetected(t *testing.T) {
	pod := func(kind, reason, message string) []Observation {
		return []Observation{{Object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": kind,
			"status": map[string]any{"containerStatuses": []any{map[string]any{
				"state": map[string]any{"waiting": map[string]any{"reason": reason, "message": message}},
			}}},
		}}}}
	}
	if !PullsNoImage(pod("Pod", "ImagePullBackOff", "")) || !PullsNoImage(pod("Pod", "ErrImagePull", "")) {
		t.Error("PullsNoImage must be true for a Pod that cannot pull its image")
	}
	if PullsNoImage(pod("Pod", "CrashLoopBackOff", "ErrImagePull")) ||
		PullsNoImage(pod("License", "ErrImagePull", "")) ||
		PullsNoImage([]Observation{{}}) {
		t.Error("PullsNoImage must be false for other reasons, other kinds and missing objects")
	}
}
