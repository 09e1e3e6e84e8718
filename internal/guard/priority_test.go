package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModulesCannotDisplaceTheAgent(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"PriorityClass with the agent's priority": {
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: 1000000000",
			"PriorityClass x: value 1000000000 would let pods with this class displace the agent: use at most 999999999",
		},
		"PriorityClass with an invalid value": {
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: high",
			"would let pods with this class displace the agent",
		},
		"PriorityClass for all pods": {
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: 1\nglobalDefault: true",
			"globalDefault would change the priority of all pods without a class",
		},
		"PriorityClass of keda": {
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: keda-priority-class}\nvalue: " +
				"2000000\nglobalDefault: false", "",
		},
		"PodDisruptionBudget for all pods": {
			disruptionBudget("kyma-system", "{}"),
			"PodDisruptionBudget kyma-system/x: spec.selector would select the agent's pods",
		},
		"PodDisruptionBudget for the agent's label": {
			disruptionBudget("kyma-system", "{matchLabels: {app.kubernetes.io/name: skr-agent}}"),
			"spec.selector would select the agent's pods",
		},
		"PodDisruptionBudget for a label whose value is not fixed": {
			disruptionBudget("kyma-system", "{matchExpressions: [{key: helm.sh/chart, operator: NotIn, values: [a]}]}"),
			"spec.selector would select the agent's pods",
		},
		"PodDisruptionBudget for the module's label": {
			disruptionBudget("kyma-system", "{matchLabels: {app: keda, app.kubernetes.io/instance: keda}}"), "",
		},
		"PodDisruptionBudget without a selector":   {disruptionBudget("kyma-system", "null"), ""},
		"PodDisruptionBudget in another namespace": {disruptionBudget("mine", "{}"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(objects(t, c.yaml), home)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
