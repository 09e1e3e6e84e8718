package preflight

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
)

// Permission is a verb on a resource, on one object, or on a non-resource URL.
type Permission struct {
	Verb, Group, Resource, Subresource string
	// Name is the name of one object, or empty for all objects.
	Name string
	// Namespace limits the permission to one namespace. Empty means the whole cluster.
	Namespace string
	// URL is a path such as /metrics, or empty for a permission on a resource.
	URL string
}

// String returns a readable form such as "get leases kcp-publisher.kyma-pull.dev in kcp-system".
func (p Permission) String() string {
	if p.URL != "" {
		return p.Verb + " URL " + p.URL
	}
	text := p.Verb + " " + p.Resource
	if p.Subresource != "" {
		text += "/" + p.Subresource
	}
	if p.Group != "" && p.Group != "*" {
		text += "." + p.Group
	}
	if p.Name != "" {
		text += " " + p.Name
	}
	if p.Namespace != "" {
		text += " in " + p.Namespace
	}
	return text
}

func (p Permission) review() *authorizationv1.SelfSubjectAccessReview {
	var spec authorizationv1.SelfSubjectAccessReviewSpec
	if p.URL != "" {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: p.URL, Verb: p.Verb}
	} else {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: p.Verb, Group: p.Group, Resource: p.Resource, Subresource: p.Subresource, Name: p.Name,
			Namespace: p.Namespace,
		}
	}
	return &authorizationv1.SelfSubjectAccessReview{Spec: spec}
}

// Permissions returns the permissions in all roles that a chart's RBAC file binds. The map namespaces translates the
// namespaces in the file to the installation's namespaces.
func Permissions(files fs.FS, path string, namespaces map[string]string) ([]Permission, error) {
	data, err := fs.ReadFile(files, path)
	if err != nil {
		return nil, err
	}
	type object struct {
		rbacv1.ClusterRole `json:",inline"`
		RoleRef            *rbacv1.RoleRef `json:"roleRef"`
	}
	var roles []object
	bound := map[string]bool{}
	for decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if o.RoleRef != nil {
			bound[o.RoleRef.Kind+" "+o.RoleRef.Name] = true
		} else if len(o.Rules) > 0 {
			roles = append(roles, o)
		}
	}
	var all []Permission
	for _, role := range roles {
		if !bound[role.Kind+" "+role.Name] {
			continue // the chart only provides this role for users to bind
		}
		namespace := role.Namespace
		if own, ok := namespaces[namespace]; ok {
			namespace = own
		}
		for _, rule := range role.Rules {
			all = append(all, expand(rule, namespace)...)
		}
	}
	return all, nil
}

func expand(rule rbacv1.PolicyRule, namespace string) []Permission {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []Permission
	for _, group := range rule.APIGroups {
		for _, named := range rule.Resources {
			resource, sub, _ := strings.Cut(named, "/")
			for _, name := range names {
				for _, verb := range rule.Verbs {
					all = append(
						all,
						Permission{
							Verb:        verb,
							Group:       group,
							Resource:    resource,
							Subresource: sub,
							Name:        name,
							Namespace:   namespace,
						},
					)
				}
			}
		}
	}
	for _, url := range rule.NonResourceURLs {
		for _, verb := range rule.Verbs {
			all = append(all, Permission{Verb: verb, URL: url})
		}
	}
	return all
}

// shownPermissions limits the number of permissions in a message.
const shownPermissions = 5

// Rights returns the finding for one part of the chart's RBAC. It takes the number of checked permissions (asked) and
// the permissions that the API server does not grant (denied).
func Rights(part string, asked int, denied []Permission, advice string) Finding {
	check := "rights, " + part
	if len(denied) == 0 {
		return newPassed(check, "all %d permissions are granted", asked)
	}
	var names []string
	for _, p := range denied[:min(len(denied), shownPermissions)] {
		names = append(names, p.String())
	}
	text := strings.Join(slices.Compact(names), ", ")
	if more := len(denied) - shownPermissions; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return Fail(check, fmt.Sprintf("%d of %d permissions are missing: %s", len(denied), asked, text), advice)
}

// openGroups lists API groups. Every account has permissions in these groups by default.
var openGroups = []string{"authentication.k8s.io", "authorization.k8s.io"}

// Account returns the finding for a ServiceAccount that the agent impersonates. The check passes if the account has
// any permissions, because the required permissions depend on the modules.
func Account(check, namespace string, rules authorizationv1.SubjectRulesReviewStatus) Finding {
	some := slices.ContainsFunc(rules.ResourceRules, func(rule authorizationv1.ResourceRule) bool {
		return slices.ContainsFunc(rule.APIGroups, func(group string) bool {
			return !slices.Contains(openGroups, group)
		})
	})
	if some || rules.Incomplete {
		return newPassed(check, "the ServiceAccount can be impersonated and has permissions")
	}
	return Warn(check,
		"the ServiceAccount has no permissions in the cluster or in "+namespace+", so it cannot install modules",
		"create it, and grant it the permissions listed in docs/guides/rights.md")
}
