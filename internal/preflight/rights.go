package preflight

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
)

// Permission is one verb on one kind of resource, or on one object of it.
type Permission struct {
	Verb, Group, Resource, Subresource string
	// Name is empty for all objects.
	Name string
	// Namespace is empty for the whole cluster.
	Namespace string
}

// String returns it as a person would say it: "get leases kcp-publisher.kyma-pull.dev in kcp-system".
func (p Permission) String() string {
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

// Permissions returns what a file of a chart's RBAC gives to those whom it binds. Namespaces are replaced as the map says.
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
			continue // for others to bind
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

// expand returns each verb on each resource of a rule.
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
					all = append(all, Permission{verb, group, resource, sub, name, namespace})
				}
			}
		}
	}
	return all
}

// shownPermissions is how many a message names.
const shownPermissions = 5

// Rights judges what of a part of the chart's RBAC is denied.
func Rights(part string, asked int, denied []Permission, advice string) Finding {
	check := "rights, " + part
	if len(denied) == 0 {
		return passed(check, "all %d are given", asked)
	}
	var names []string
	for _, p := range denied[:min(len(denied), shownPermissions)] {
		names = append(names, p.String())
	}
	text := strings.Join(slices.Compact(names), ", ")
	if more := len(denied) - shownPermissions; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return Fail(check, fmt.Sprintf("%d of %d are missing: %s", len(denied), asked, text), advice)
}
