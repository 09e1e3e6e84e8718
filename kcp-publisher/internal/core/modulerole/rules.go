package modulerole

import (
	"encoding/json"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// roleRules returns the rules for the generated Role in a namespace. For an empty namespace, it returns the rules of
// the ClusterRole.
func (s *ruleSet) roleRules(namespace string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	if namespace == "" {
		rules = append(rules, s.kindRules()...)
	}
	here := slices.Clone(s.content[namespace])
	slices.SortFunc(here, byGroup)
	here = slices.Compact(here)
	for _, group := range apiGroups(here) {
		var resources []string
		for _, t := range here {
			if t.group == group && !s.definesResource(t) {
				resources = append(resources, t.resource)
			}
		}
		resources = slices.Compact(resources)
		if len(resources) > 0 {
			rules = append(rules, newRule(group, resources, nil, "create"))
		}
		for _, resource := range resources {
			var names []string
			for _, t := range here {
				if t.group == group && t.resource == resource {
					names = append(names, t.name)
				}
			}
			rules = append(rules, newRule(group, []string{resource}, names, "get", "patch", "delete"))
		}
	}
	return distinctRules(append(rules, s.extraRules[namespace]...))
}

// kindRules returns the rules that are not limited to object names. They allow list and watch for each kind in the
// modules, and all verbs for each kind that a module defines.
func (s *ruleSet) kindRules() []rbacv1.PolicyRule {
	var written, defined []target
	for _, targets := range s.content {
		for _, t := range targets {
			if !s.definesResource(t) {
				written = append(written, target{t.group, t.resource, ""})
			}
		}
	}
	for gk, d := range s.defined {
		defined = append(defined, target{gk.Group, d.plural, ""})
	}
	return slices.Concat(rulesForKinds(written, "list", "watch"),
		rulesForKinds(defined, "get", "list", "watch", "create", "patch", "delete"))
}

func rulesForKinds(kinds []target, verbs ...string) (rules []rbacv1.PolicyRule) {
	slices.SortFunc(kinds, byGroup)
	kinds = slices.Compact(kinds)
	for _, group := range apiGroups(kinds) {
		var resources []string
		for _, t := range kinds {
			if t.group == group {
				resources = append(resources, t.resource)
			}
		}
		rules = append(rules, newRule(group, resources, nil, verbs...))
	}
	return rules
}

func (s *ruleSet) definesResource(t target) bool {
	for gk, d := range s.defined {
		if gk.Group == t.group && d.plural == t.resource {
			return true
		}
	}
	return false
}

func apiGroups(targets []target) (groups []string) {
	for _, t := range targets {
		groups = append(groups, t.group)
	}
	return slices.Compact(groups)
}

func distinctRules(rules []rbacv1.PolicyRule) (kept []rbacv1.PolicyRule) {
	seen := map[string]bool{}
	for _, r := range rules {
		text, _ := json.Marshal(r) // cannot fail: a rule contains only strings
		if !seen[string(text)] {
			kept = append(kept, r)
		}
		seen[string(text)] = true
	}
	return kept
}
