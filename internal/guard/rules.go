package guard

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// listRules returns the rules in the order of evaluation. The first rule that refuses an object determines the error.
// The rule in interception.go is evaluated after all of these rules.
func listRules() []rule {
	return slices.Concat(listObjectRules(), listPodRules(), listClusterRules(), listAPIRules(),
		listOwnRequestRules())
}

// ruleInterception is the name of the rule for webhooks, admission policies and bindings. Only the agent enforces it,
// because Kubernetes does not evaluate admission policies for these kinds.
const ruleInterception = "interception"

// Check refuses content with objects that no module can write: the agent's objects, and objects that the agent depends
// on. The error is a *Refusal.
func Check(objects []*unstructured.Unstructured, agentNamespace string) error {
	policies := map[string]bool{}
	for _, o := range objects {
		if o.GroupVersionKind().Group == AdmissionGroup {
			policies[o.GetKind()+" "+o.GetName()] = true
		}
	}
	rules := listRules()
	for _, o := range objects {
		for _, r := range rules {
			if r.check == nil {
				continue
			}
			if text := r.check(o, agentNamespace); text != "" {
				return &Refusal{Rule: r.name, Object: KeyOf(o), reason: text + ": remove it from the module"}
			}
		}
		if text := checkInterception(o, agentNamespace, policies); text != "" {
			return &Refusal{Rule: ruleInterception, Object: KeyOf(o), reason: text + ", or remove it from the module"}
		}
	}
	return checkTotalShares(objects)
}

// ruleShares is the name of the rule that limits the total shares in a module's PriorityLevelConfigurations. An
// admission policy cannot enforce this rule, because a policy evaluates one object at a time.
const ruleShares = "priority-levels"

// ContentOnlyReason returns the reason why only the agent's check of module content enforces a rule. It returns "" if
// the admission policies in the Helm chart also enforce the rule.
func ContentOnlyReason(name string) string {
	switch name {
	case ruleInterception:
		return "Kubernetes does not evaluate admission policies for requests about webhooks and admission policies"
	case ruleShares:
		return "an admission policy evaluates one object at a time"
	}
	for _, r := range listRules() {
		if r.name == name {
			return r.contentOnlyReason
		}
	}
	return "unknown rule"
}
