// Package modulerole computes the RBAC objects that an agent without cluster-admin permissions needs to install a set
// of modules: a ClusterRole, a Role for each namespace, and their bindings.
//
// The permissions allow the agent to install, upgrade and remove the modules' objects by name. For kinds that a module
// defines with a CustomResourceDefinition, the permissions cover all names. The result also includes the rules of all
// Roles and ClusterRoles in the modules, because an account can only grant permissions that it has.
//
// Limitation: If a kind is not part of Kubernetes and no module defines it, the package guesses the plural of the kind,
// and treats an object without a namespace as cluster-scoped.
package modulerole

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AgentNamespace is the agent's namespace. It is also the default namespace of module objects.
const AgentNamespace = "kyma-system"

// Grant configures the names in the generated RBAC objects.
type Grant struct {
	// Name is the name of all generated objects.
	Name string
	// Namespace and Account identify the agent's ServiceAccount.
	Namespace, Account string
}

// Objects returns the RBAC objects that the agent needs for these module objects, sorted by kind and namespace.
func (g Grant) Objects(modules []*unstructured.Unstructured) ([]runtime.Object, error) {
	s, err := newRuleSet(modules)
	if err != nil {
		return nil, err
	}
	roleRef := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: g.Name}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: g.Namespace, Name: g.Account}}
	version := rbacv1.SchemeGroupVersion.String()
	objects := []runtime.Object{
		&rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{
				APIVersion: version,
				Kind:       "ClusterRole",
			}, ObjectMeta: metav1.ObjectMeta{Name: g.Name}, Rules: s.roleRules(""),
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{
				APIVersion: version,
				Kind:       "ClusterRoleBinding",
			}, ObjectMeta: metav1.ObjectMeta{Name: g.Name},
			RoleRef: roleRef("ClusterRole"), Subjects: subjects,
		},
	}
	for _, namespace := range s.roleNamespaces() {
		at := metav1.ObjectMeta{Namespace: namespace, Name: g.Name}
		objects = append(objects,
			&rbacv1.Role{
				TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: "Role"},
				ObjectMeta: at,
				Rules:      s.roleRules(namespace),
			},
			&rbacv1.RoleBinding{
				TypeMeta: metav1.TypeMeta{
					APIVersion: version,
					Kind:       "RoleBinding",
				}, ObjectMeta: at, RoleRef: roleRef("Role"), Subjects: subjects,
			},
		)
	}
	return objects, nil
}

type ruleSet struct {
	// ownNamespaces lists the namespaces that modules create. The ClusterRole contains the permissions for these
	// namespaces, because a Role can be created only after its namespace.
	ownNamespaces []string
	defined       map[schema.GroupKind]definition
	// content maps the namespace of each generated Role to the module objects that the Role covers. The key "" is the
	// ClusterRole.
	content map[string][]target
	// extraRules maps the namespace of each generated Role to additional rules that the agent needs, such as the rule
	// to list its own Pods.
	extraRules map[string][]rbacv1.PolicyRule
}

type definition struct {
	plural     string
	namespaced bool
}

type target struct{ group, resource, name string }

const (
	groupCRD  = "apiextensions.k8s.io"
	admission = "admissionregistration.k8s.io"
)

func newRuleSet(modules []*unstructured.Unstructured) (*ruleSet, error) {
	s := &ruleSet{
		defined:    map[schema.GroupKind]definition{},
		content:    map[string][]target{},
		extraRules: map[string][]rbacv1.PolicyRule{},
	}
	for _, o := range modules {
		switch {
		case o.GroupVersionKind().GroupKind() == schema.GroupKind{Group: groupCRD, Kind: "CustomResourceDefinition"}:
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
			scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
			if plural == "" {
				return nil, fmt.Errorf("CustomResourceDefinition %s: spec.names.plural is required", o.GetName())
			}
			s.defined[schema.GroupKind{Group: group, Kind: kind}] = definition{plural, scope == "Namespaced"}
		case isNamespace(o) && !isSharedNamespace(o):
			s.ownNamespaces = append(s.ownNamespaces, o.GetName())
		}
	}
	// The agent lists admission webhooks and policies before it sets labels on its own namespace. It also lists its own
	// Pods.
	s.addRules(
		"",
		newRule(
			admission,
			[]string{
				"mutatingadmissionpolicies",
				"mutatingadmissionpolicybindings",
				"mutatingwebhookconfigurations",
				"validatingadmissionpolicies",
				"validatingadmissionpolicybindings",
				"validatingwebhookconfigurations",
			},
			nil,
			"list",
		),
	)
	s.addRules("", newRule("", []string{"namespaces"}, []string{AgentNamespace}, "get", "list", "patch"))
	s.addRules(AgentNamespace, newRule("", []string{"pods"}, nil, "list"))
	if len(s.ownNamespaces) > 0 {
		// Before the agent deletes a module's namespace, it lists all kinds to check that the namespace is empty.
		s.addRules("", newRule("*", []string{"*"}, nil, "list"))
	}
	for _, o := range modules {
		if err := s.addObject(o, modules); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *ruleSet) addObject(o *unstructured.Unstructured, modules []*unstructured.Unstructured) error {
	if isNamespace(o) && isSharedNamespace(o) {
		s.addRules("", newRule("", []string{"namespaces"}, []string{o.GetName()}, "get", "list", "patch"))
		return nil
	}
	gvk := o.GroupVersionKind()
	namespace, resource := s.roleNamespace(o), s.pluralName(gvk)
	if _, scalable, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas"); scalable {
		// The agent keeps the replicas that an autoscaler sets.
		s.addRules(namespace, newRule("autoscaling", []string{"horizontalpodautoscalers"}, nil, "list"),
			newRule("keda.sh", []string{"scaledobjects"}, nil, "list"))
	}
	if gvk.Group == "" && gvk.Kind == "PersistentVolumeClaim" {
		// Depending on its StorageClass, a PersistentVolumeClaim can wait for its first Pod.
		s.addRules("", newRule("storage.k8s.io", []string{"storageclasses"}, nil, "list"))
	}
	if account := o.GetAnnotations()[corev1.ServiceAccountNameKey]; isSecret(gvk) && account != "" {
		// The admission policies of the agent's chart allow a Secret with a token only with this permission.
		s.addRules(namespace, newRule("", []string{"serviceaccounts/token"}, []string{account}, "create"))
	}
	s.content[namespace] = append(s.content[namespace], target{gvk.Group, resource, o.GetName()})
	if gvk.Group != rbacv1.GroupName {
		return nil
	}
	granted, err := requiredRules(o, modules)
	if err != nil {
		return fmt.Errorf("%s %s: %w", gvk.Kind, o.GetName(), err)
	}
	s.addRules(namespace, granted...)
	return nil
}

func isSecret(gvk schema.GroupVersionKind) bool { return gvk.Group == "" && gvk.Kind == "Secret" }

// requiredRules returns the rules that an account must already have before it can write this Role, ClusterRole or
// binding.
//
// Source: Kubernetes documentation, Using RBAC Authorization, "Privilege escalation prevention and bootstrapping".
func requiredRules(o *unstructured.Unstructured, modules []*unstructured.Unstructured) ([]rbacv1.PolicyRule, error) {
	switch o.GetKind() {
	case "Role", "ClusterRole":
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			return nil, err
		}
		if role.AggregationRule != nil {
			return []rbacv1.PolicyRule{
				newRule(rbacv1.GroupName, []string{"clusterroles"}, []string{role.Name}, "escalate"),
			}, nil
		}
		return role.Rules, nil
	case "RoleBinding", "ClusterRoleBinding":
		var binding rbacv1.ClusterRoleBinding
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding); err != nil {
			return nil, err
		}
		ref := binding.RoleRef
		if ref.Name == "" {
			return nil, errors.New("roleRef.name is required")
		}
		if slices.ContainsFunc(modules, func(role *unstructured.Unstructured) bool {
			aggregated, _, _ := unstructured.NestedFieldNoCopy(role.Object, "aggregationRule")
			return role.GroupVersionKind().Group == rbacv1.GroupName && role.GetKind() == ref.Kind &&
				role.GetName() == ref.Name && aggregated == nil
		}) {
			return nil, nil
		}
		return []rbacv1.PolicyRule{
			newRule(rbacv1.GroupName, []string{strings.ToLower(ref.Kind) + "s"}, []string{ref.Name}, "bind"),
		}, nil
	}
	return nil, nil
}

func (s *ruleSet) addRules(namespace string, rules ...rbacv1.PolicyRule) {
	if slices.Contains(s.ownNamespaces, namespace) {
		namespace = ""
	}
	s.extraRules[namespace] = append(s.extraRules[namespace], rules...)
}

// roleNamespace returns the namespace of the generated Role that must cover an object. It returns "" if the generated
// ClusterRole must cover it.
func (s *ruleSet) roleNamespace(o *unstructured.Unstructured) string {
	gk, namespace := o.GroupVersionKind().GroupKind(), o.GetNamespace()
	defined, known := s.defined[gk]
	switch {
	case slices.Contains(clusterScoped[gk.Group], gk.Kind), known && !defined.namespaced:
		return ""
	case namespace == "" && (known || isBuiltIn(gk.Group)):
		namespace = AgentNamespace
	}
	if slices.Contains(s.ownNamespaces, namespace) {
		return ""
	}
	return namespace
}

func (s *ruleSet) pluralName(gvk schema.GroupVersionKind) string {
	if defined, ok := s.defined[gvk.GroupKind()]; ok {
		return defined.plural
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural.Resource
}

func (s *ruleSet) roleNamespaces() (names []string) {
	for namespace := range s.content {
		names = append(names, namespace)
	}
	for namespace := range s.extraRules {
		names = append(names, namespace)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

func isNamespace(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
}

// isSharedNamespace reports whether several modules can use a namespace, such as kyma-system or default. The agent
// never deletes such a namespace.
func isSharedNamespace(o *unstructured.Unstructured) bool {
	return o.GetName() == AgentNamespace || o.GetName() == "default" || strings.HasPrefix(o.GetName(), "kube-")
}

func isBuiltIn(group string) bool {
	return !strings.Contains(group, ".") || group == rbacv1.GroupName || slices.Contains(builtIn, group)
}

var builtIn = []string{
	"networking.k8s.io",
	"policy",
	"coordination.k8s.io",
	"discovery.k8s.io",
	"events.k8s.io",
	"resource.k8s.io",
}

var clusterScoped = map[string][]string{
	"": {"Namespace", "Node", "PersistentVolume"},
	admission: {
		"MutatingAdmissionPolicy",
		"MutatingAdmissionPolicyBinding",
		"MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding",
		"ValidatingWebhookConfiguration",
	},
	groupCRD:                       {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"networking.k8s.io":            {"IngressClass", "IPAddress", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	rbacv1.GroupName:               {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io": {
		"CSIDriver",
		"CSINode",
		"StorageClass",
		"VolumeAttachment",
		"VolumeAttributesClass",
	},
}

func newRule(group string, resources, names []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, ResourceNames: names, Verbs: verbs}
}

func byGroup(a, b target) int {
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource), cmp.Compare(a.name, b.name))
}
