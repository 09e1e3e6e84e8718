package guard

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A rule refuses objects that no module may write, whatever the rights of its account.
type rule struct {
	name string
	// contentOnly is the reason why the chart's admission policies do not have the rule; empty if they enforce it as
	// well. A test compares both, object by object.
	contentOnly string
	// refuses returns the reason against an object, or nothing.
	refuses func(o *unstructured.Unstructured, home string) string
}

func byKey(refuses func(Key, string) string) func(*unstructured.Unstructured, string) string {
	return func(o *unstructured.Unstructured, home string) string { return refuses(KeyOf(o), home) }
}

// rules returns the table of rules. The first rule that refuses an object is the one that is reported. Rules about
// webhooks and policies are in interception.go, because they need the other objects of the content.
func rules() []rule {
	return []rule{
		{
			"agent-kind",
			"tenants edit the runtime's Kyma, and own ModuleTemplates without the label of the catalog",
			byKey(agentKind),
		},
		{"agent-definition", "", byKey(agentDefinition)},
		{"agent-api", "", byKey(agentAPI)},
		{"trusted-ca", "", byKey(trustedCA)},
		{"agent-object", "", byKey(agentObject)},
		{
			"owner",
			"Kubernetes and tenants set owners of their own objects; in shared namespaces the policies refuse it",
			owns,
		},
		{"shared-namespace", "", changesShared},
		{"shared-namespace-spec", "the API server ignores it in updates", specifiesShared},
		{"agent-pods", "", borrows},
		{"pods-like-agent", "", resembles},
		{"agent-scale", "", aims},
		{"agent-rights", "", seizes},
		{"granted-rights", "", grants},
		{"namespace-limits", "", limits},
		{"priority-level", "", outranks},
		{"request-flow", "", seizesRequests},
		{"secret-reference", "", hands},
		{"network", "", cutsOff},
		{"kubernetes-api", "", usurps},
	}
}

// ruleInterception is the rule about webhooks, admission policies and their bindings. Kubernetes does not send
// requests about these kinds to admission policies, so that only the agent can enforce it.
const ruleInterception = "interception"

// Refusal is the error for content that breaks a rule.
type Refusal struct {
	Rule   string
	Object Key
	text   string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Object, r.text) }

// Check refuses content with an object that no module may write: objects that the agent consists of, reads its
// orders from or depends on. Other objects of the content count for bindings of admission policies and for the sum
// of priority levels. The error is a *Refusal.
func Check(objects []*unstructured.Unstructured, home string) error {
	policies := map[string]bool{}
	for _, o := range objects {
		if o.GroupVersionKind().Group == AdmissionGroup {
			policies[o.GetKind()+" "+o.GetName()] = true
		}
	}
	for _, o := range objects {
		for _, r := range rules() {
			if text := r.refuses(o, home); text != "" {
				return &Refusal{Rule: r.name, Object: KeyOf(o), text: text + ": remove it from the module"}
			}
		}
		if text := intercepts(o, home, policies); text != "" {
			return &Refusal{Rule: ruleInterception, Object: KeyOf(o), text: text + ", or remove it from the module"}
		}
	}
	return sharesInAll(objects)
}

// ruleShares is the rule about all priority levels of a module together. An admission policy sees one object at a
// time.
const ruleShares = "priority-levels"

// ContentOnly returns why the chart's admission policies do not enforce a rule; empty if they do.
func ContentOnly(name string) string {
	switch name {
	case ruleInterception:
		return "Kubernetes does not send requests about webhooks and admission policies to admission policies"
	case ruleShares:
		return "an admission policy sees one object at a time"
	}
	for _, r := range rules() {
		if r.name == name {
			return r.contentOnly
		}
	}
	return "no such rule exists"
}
