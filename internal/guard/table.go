package guard

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// A rule refuses objects that no module can write, regardless of the permissions of the module's account. The agent
// checks module content, and the admission policies in the Helm chart check requests from tenants and modules'
// ServiceAccounts. `make generate` writes the policies from the rules.
type rule struct {
	name string
	// contentOnlyReason is the reason why the admission policies do not enforce the complete rule. It is empty if they
	// do.
	contentOnlyReason string
	// policyOnlyReason is the reason why the agent's check of module content does not enforce the rule.
	policyOnlyReason string
	// check returns the reason for refusing an object, or "" if it is accepted. It is nil if the agent does not enforce
	// the rule.
	check func(o *unstructured.Unstructured, agentNamespace string) string
	// policies returns the parts of the admission policies that enforce the rule. It is nil if the policies do not
	// enforce the rule.
	policies func() []policyCheck
}

// policyName is the name of an admission policy in the chart.
type policyName string

const (
	// policyHome checks requests for objects in the agent's namespace.
	policyHome policyName = "skr-agent-protection"
	// policyCluster checks requests for cluster-scoped objects, and for some objects in all namespaces.
	policyCluster policyName = "skr-agent-protection-cluster"
)

// policyCheck is one validation in an admission policy.
type policyCheck struct {
	policy policyName
	// requests selects the requests that policyCluster or policyAgent must check for this validation. policyHome
	// checks all requests in the agent's namespace.
	requests []requestMatch
	// comment is a comment in the policy. It can be empty.
	comment string
	// expression is true for accepted requests.
	expression string
	// message is the reason for a refusal. It is a CEL expression if isMessageExpression is true.
	message             string
	isMessageExpression bool
}

// requestMatch selects requests by the API group, resource and operation.
type requestMatch struct {
	groups, resources, operations []string
	scope                         string
}

var (
	changes = []string{"CREATE", "UPDATE", "DELETE"}
	writes  = []string{"CREATE", "UPDATE"}
)

// inCluster selects requests for cluster-scoped objects. inAnyNamespace selects requests for objects in all namespaces.
const (
	inCluster      = "Cluster"
	inAnyNamespace = "Namespaced"
)

// requested returns a CEL expression that is true for requests about the kind.
func (p protectedKind) requested() string {
	return fmt.Sprintf("request.resource.group == %s && request.resource.resource == %s", celText(p.group),
		celText(p.resource))
}

// celText returns a text as a CEL string.
func celText(text string) string { return "'" + text + "'" }

// celList returns a CEL list of strings.
func celList(items ...string) string {
	quoted := make([]string, 0, len(items))
	for _, item := range items {
		quoted = append(quoted, celText(item))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// celAny returns a pattern that matches any of the strings.
func celAny(texts ...string) string {
	quoted := make([]string, 0, len(texts))
	for _, text := range texts {
		quoted = append(quoted, strings.ReplaceAll(text, ".", "[.]"))
	}
	return "(" + strings.Join(quoted, "|") + ")"
}

// celFields returns an optional CEL value for a field path.
func celFields(object string, path ...string) string { return object + ".?" + strings.Join(path, ".?") }

// agentNames is a pattern for the names that are reserved for the agent. isAgentName uses the same parts.
func agentNames() string {
	return fmt.Sprintf("(%s([%s].*)?|%s.*)", AgentName, agentNameSeparators, reservedPrefix)
}

// celExpression replaces <NAME> placeholders in a CEL expression. replacements contains pairs of names
// and values. Some placeholders, such as <home>, are predefined.
func celExpression(expression string, replacements ...string) string {
	all := []string{
		"<home>", celText(v1beta2.RuntimeNamespace),
		"<home-name>", v1beta2.RuntimeNamespace,
		"<group>", celText(v1beta2.GroupVersion.Group),
		"<accounts>", "system:serviceaccount:" + v1beta2.RuntimeNamespace + ":",
		"<agent-names>", agentNames(),
	}
	for i := 0; i+1 < len(replacements); i += 2 {
		all = append(all, "<"+replacements[i]+">", replacements[i+1])
	}
	return strings.NewReplacer(all...).Replace(strings.TrimSpace(expression))
}

func checkByKey(check func(Key, string) string) func(*unstructured.Unstructured, string) string {
	return func(o *unstructured.Unstructured, agentNamespace string) string {
		return check(KeyOf(o), agentNamespace)
	}
}

// Refusal is the error for content that breaks a rule.
type Refusal struct {
	Rule   string
	Object Key
	reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Object, r.reason) }
