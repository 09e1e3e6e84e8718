package guard

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// checkRole refuses roles and bindings that would let other accounts operate the agent. An account can operate the
// agent if it can change objects of agents.kyma-pull.dev. Labels for aggregation can also add the rules of a role to
// the roles of other accounts.
func checkRole(o *unstructured.Unstructured, _ string) string {
	k := KeyOf(o)
	if k.Group != rbacGroup {
		return ""
	}
	switch k.Kind {
	case "ClusterRole", "Role":
		return checkRoleRules(o)
	case "ClusterRoleBinding":
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
		aggregated = aggregated || strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-")
	}
	for n, entry := range rules {
		r, _ := entry.(map[string]any)
		groups, resources, verbs := stringList(r["apiGroups"]), stringList(r["resources"]), stringList(r["verbs"])
		switch {
		case slices.Contains(groups, "kyma-pull.dev"):
			return fmt.Sprintf("rules[%d] grants the permissions of the agent's operators", n)
		case !aggregated || !slices.ContainsFunc(verbs, isWriteVerb):
		case slices.Contains(groups, "*") && (slices.Contains(resources, "*") || slices.Contains(resources, "agents")):
			return fmt.Sprintf(
				"rules[%d] would make all subjects of an aggregated role operators of the agent: list API groups", n)
		case (slices.Contains(groups, "*") || slices.Contains(groups, "operator.kyma-project.io")) &&
			slices.ContainsFunc(resources, isAgentResource):
			return fmt.Sprintf(
				"rules[%d] would let all subjects of an aggregated role write the objects that control the agent: "+
					"list the module's own resources", n)
		}
	}
	return ""
}

// checkPublicBinding refuses a binding of a powerful role to all accounts of the cluster.
func checkPublicBinding(o *unstructured.Unstructured) string {
	role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
	if !slices.Contains([]string{"cluster-admin", "admin", "edit"}, role) {
		return ""
	}
	everyone := []string{"system:authenticated", "system:unauthenticated", "system:serviceaccounts", "system:anonymous"}
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for n, s := range subjects {
		subject, _ := s.(map[string]any)
		if name, _ := subject["name"].(string); slices.Contains(everyone, name) {
			return fmt.Sprintf("subjects[%d] would let every account write the agent's own objects", n)
		}
	}
	return ""
}

const rbacGroup = "rbac.authorization.k8s.io"

func isWriteVerb(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }

// isAgentResource reports whether a resource in a rule includes a kind that only the agent writes.
func isAgentResource(resource string) bool {
	return slices.Contains([]string{"*", "*/*", "manifests", "manifests/status", "moduletemplates",
		"modulereleasemetas"}, resource)
}

// listAt returns a list in an object. Like Kubernetes, it treats the value null as a missing field. Charts write null
// for an empty list.
func listAt(o *unstructured.Unstructured, path ...string) ([]any, error) {
	for n := range path {
		value, found, err := unstructured.NestedFieldNoCopy(o.Object, path[:n+1]...)
		if err != nil {
			return nil, err
		}
		if !found || value == nil {
			return nil, nil
		}
	}
	entries, _, err := unstructured.NestedSlice(o.Object, path...)
	return entries, err
}

func stringList(value any) []string {
	entries, _ := value.([]any)
	var all []string
	for _, entry := range entries {
		text, _ := entry.(string)
		all = append(all, text)
	}
	return all
}
