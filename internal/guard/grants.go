package guard

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// checkRole refuses roles and bindings that would let other accounts operate the agent. An account can operate the
// agent if it can change agents.kyma-pull.dev objects. Aggregation labels can also add a role's rules to other
// accounts' roles.
func checkRole(o *unstructured.Unstructured, _ string) string {
	k := KeyOf(o)
	switch {
	case k.isAny(roleKind, clusterRoleKind):
		return checkRoleRules(o)
	case k.isAny(clusterRoleBindingKind):
		return checkPublicBinding(o)
	}
	return ""
}

// checkRoleRules refuses a role whose rules would let an account operate the agent.
func checkRoleRules(o *unstructured.Unstructured) string {
	rules, err := listAt(o, "rules")
	if err != nil {
		return "rules cannot be read: " + err.Error()
	}
	aggregated := false
	for label := range o.GetLabels() {
		aggregated = aggregated || strings.HasPrefix(label, aggregationLabels)
	}
	for n, entry := range rules {
		r, _ := entry.(map[string]any)
		groups, resources, verbs := stringList(r["apiGroups"]), stringList(r["resources"]), stringList(r["verbs"])
		switch {
		case slices.Contains(groups, operatorGroup):
			return fmt.Sprintf("rules[%d] grants the permissions of the agent's operators", n)
		case !aggregated || !slices.ContainsFunc(verbs, isWriteVerb):
		case slices.Contains(groups, "*") &&
			(slices.Contains(resources, "*") || slices.Contains(resources, operatorResource)):
			return fmt.Sprintf(
				"rules[%d] would make all subjects of an aggregated role operators of the agent: list API groups", n)
		case (slices.Contains(groups, "*") || slices.Contains(groups, v1beta2.GroupVersion.Group)) &&
			slices.ContainsFunc(resources, isAgentResource):
			return fmt.Sprintf(
				"rules[%d] would let all subjects of an aggregated role write the objects that control the agent: "+
					"list the module's own resources", n)
		}
	}
	return ""
}

// checkPublicBinding refuses bindings of a powerful role to all accounts in the cluster.
func checkPublicBinding(o *unstructured.Unstructured) string {
	role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
	if !slices.Contains(powerfulRoles, role) {
		return ""
	}
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for n, s := range subjects {
		subject, _ := s.(map[string]any)
		if name, _ := subject["name"].(string); slices.Contains(allAccounts, name) {
			return fmt.Sprintf("subjects[%d] would let every account write the agent's own objects", n)
		}
	}
	return ""
}

const (
	// An account with the verb "change" on this resource is an operator.
	operatorGroup    = "kyma-pull.dev"
	operatorResource = "agents"
	// aggregationLabels is the prefix of labels that add a role's rules to a built-in role.
	aggregationLabels = rbacGroup + "/aggregate-to-"
)

var (
	powerfulRoles = []string{"cluster-admin", "admin", "edit"}
	// allAccounts are the user and group names that include all accounts, or accounts without authentication.
	allAccounts = []string{
		"system:authenticated", "system:unauthenticated", "system:serviceaccounts", "system:anonymous",
	}
	readVerbs = []string{"get", "list", "watch"}
	// agentResources are the resource names in roles that cover at least one kind that only the agent writes.
	agentResources = []string{"*", "*/*", "manifests", "manifests/status", "moduletemplates", "modulereleasemetas"}
)

func isWriteVerb(verb string) bool { return !slices.Contains(readVerbs, verb) }

// isAgentResource reports whether a role's resource name covers a kind that only the agent writes.
func isAgentResource(resource string) bool {
	return slices.Contains(agentResources, resource)
}
