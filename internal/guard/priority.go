package guard

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// agentPriority is the default priority of the agent's pods, and the highest priority that Kubernetes allows in a
// user's PriorityClass.
const agentPriority = 1_000_000_000

// checkPriorityClass refuses PriorityClasses that would let module pods preempt the agent's pods, and classes that
// change the priority of all pods in the cluster.
func checkPriorityClass(o *unstructured.Unstructured, _ string) string {
	if k := KeyOf(o); !k.isAny(priorityClassKind) {
		return ""
	}
	isDefault, _, err := unstructured.NestedBool(o.Object, "globalDefault")
	switch value := integerAt(o, "value"); {
	case value >= agentPriority:
		return fmt.Sprintf("value %d would let pods with this class displace the agent: use at most %d", value,
			agentPriority-1)
	case isDefault || err != nil:
		return "globalDefault would change the priority of all pods without a class: use priorityClassName in the " +
			"module's pods"
	}
	return ""
}

// checkDisruptionBudget refuses PodDisruptionBudgets that select the agent's pods. Kubernetes does not evict a pod that
// two budgets select, so such a budget prevents the agent's node from being drained.
func checkDisruptionBudget(o *unstructured.Unstructured, agentNamespace string) string {
	k := KeyOf(o)
	if !k.isAny(budgetKind) || k.Namespace != agentNamespace {
		return ""
	}
	var budget struct {
		Spec struct {
			Selector *metav1.LabelSelector `json:"selector"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &budget); err != nil {
		return "spec.selector cannot be read: " + err.Error()
	}
	// A budget without a selector selects no pods.
	if selector := budget.Spec.Selector; selector != nil &&
		!excludesTarget(selector, target{labels: agentPodLabels()}) {
		return "spec.selector would select the agent's pods: select the module's pods by a label that the agent's pods " +
			"do not have"
	}
	return ""
}
