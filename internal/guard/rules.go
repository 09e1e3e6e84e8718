package guard

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A rule refuses objects that no module can write, independent of the permissions of its account.
type rule struct {
	name string
	// contentOnlyReason is the reason why only the agent's check of module content enforces the rule. Empty if the
	// admission policies of the Helm chart also enforce it.
	contentOnlyReason string
	// check returns the reason for refusing an object, or "" if it is accepted.
	check func(o *unstructured.Unstructured, home string) string
}

func checkByKey(check func(Key, string) string) func(*unstructured.Unstructured, string) string {
	return func(o *unstructured.Unstructured, agentNamespace string) string {
		return check(KeyOf(o), agentNamespace)
	}
}

// listRules returns the rules in the order of evaluation. The first rule that refuses an object determines the error.
// The rule in interception.go is evaluated after them.
func listRules() []rule {
	return []rule{
		{
			"agent-kind",
			"tenants may edit the runtime's Kyma, and ModuleTemplates without the catalog's label",
			checkByKey(checkAgentKind),
		},
		{"agent-definition", "", checkByKey(checkAgentCRD)},
		{
			"built-in-definition",
			"the API server refuses CRDs with a wrong name, and tenants cannot create CRDs",
			checkCRD,
		},
		{"agent-api", "", checkByKey(checkAgentAPI)},
		{"trusted-ca", "", checkByKey(checkTrustedCA)},
		{"agent-object", "", checkByKey(checkAgentObject)},
		{
			"owner",
			"Kubernetes and tenants set owners of their own objects; the policies check only shared namespaces",
			checkOwnerReferences,
		},
		{"shared-namespace", "", checkSharedNamespace},
		{"shared-namespace-spec", "the API server ignores spec in updates of a namespace", checkSharedSpec},
		{"agent-pods", "", checkBuiltInReferences},
		{
			"agent-references",
			"an admission policy cannot search all fields of custom resources; it checks the pods that their operators " +
				"create",
			checkAgentAccount,
		},
		{"pods-like-agent", "", checkPodLabels},
		{"agent-scale", "", checkAutoscaler},
		{"agent-rights", "", checkRoleBinding},
		{"granted-rights", "", checkRole},
		{"namespace-limits", "", checkQuota},
		{"priority-level", "", checkPriorityLevel},
		{"priority-class", "", checkPriorityClass},
		{"agent-disruption", "", checkDisruptionBudget},
		{"request-flow", "", checkFlowSchema},
		{"secret-reference", "", checkSecretReference},
		{
			"sealed-secret",
			"users who can create a Secret in a namespace can usually read the other Secrets there",
			checkSealedSecret,
		},
		{"network", "", checkNetworkPolicy},
		{
			"redirection",
			"only operators can create cluster-wide network objects, and the admission plugin DenyServiceExternalIPs " +
				"refuses external IPs of all users",
			checkRedirection,
		},
		{"kubernetes-api", "", checkKubernetesAPI},
	}
}

// ruleInterception is the name of the rule for webhooks, admission policies and bindings. Only the agent enforces it,
// because Kubernetes does not evaluate admission policies for these kinds.
const ruleInterception = "interception"

// Refusal is the error for content that breaks a rule.
type Refusal struct {
	Rule   string
	Object Key
	reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Object, r.reason) }

// Check refuses content with objects that no module can write: objects of the agent, and objects that the agent
// depends on. The error is a *Refusal.
func Check(objects []*unstructured.Unstructured, agentNamespace string) error {
	policies := map[string]bool{}
	for _, o := range objects {
		if o.GroupVersionKind().Group == AdmissionGroup {
			policies[o.GetKind()+" "+o.GetName()] = true
		}
	}
	for _, o := range objects {
		for _, r := range listRules() {
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

// ruleShares is the name of the rule that limits the total shares of a module's PriorityLevelConfigurations. An
// admission policy cannot enforce it, because it evaluates one object at a time.
const ruleShares = "priority-levels"

// ContentOnlyReason returns the reason why only the agent's check of module content enforces a rule. It returns "" if
// the admission policies of the Helm chart also enforce the rule.
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
