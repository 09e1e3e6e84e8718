package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// interceptor contains the fields that decide which requests a webhook, an admission policy or its binding receives,
// and the path of these fields in the object.
type interceptor struct {
	matchFields
	path string
}

// matchFields contains an interceptor's rules and selectors. They select the requests that it receives.
type matchFields struct {
	Rules             []resourceRule        `json:"rules"`
	ResourceRules     []resourceRule        `json:"resourceRules"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
	ObjectSelector    *metav1.LabelSelector `json:"objectSelector"`
	MatchConditions   []struct {
		Expression string `json:"expression"`
	} `json:"matchConditions"`
}

type resourceRule struct {
	APIGroups  []string `json:"apiGroups"`
	Resources  []string `json:"resources"`
	Operations []string `json:"operations"`
	Scope      string   `json:"scope"`
}

// target is a resource that the agent depends on.
type target struct {
	group, resource string
	// labels are the labels on the agent's objects with this resource, without openLabels. Nil if the labels are
	// unknown.
	labels labels.Set
	// inCluster is true for cluster-scoped resources. A namespaceSelector cannot exclude them.
	inCluster bool
}

// parseInterceptors returns the interceptors in a webhook configuration, an admission policy or a binding. It returns a
// problem if the fields of the object cannot be decoded.
func parseInterceptors(o *unstructured.Unstructured) (all []interceptor, problem string) {
	if o.GroupVersionKind().Group != AdmissionGroup {
		return nil, ""
	}
	read := func(raw map[string]any, where string) {
		in := interceptor{path: where}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &in.matchFields); err != nil &&
			problem == "" {
			problem = fmt.Sprintf("%s cannot be read: %v", where, err)
		}
		all = append(all, in)
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	switch {
	case isBinding(o):
		resources, _ := spec["matchResources"].(map[string]any)
		read(resources, "spec.matchResources")
		last := &all[len(all)-1]
		if len(last.ResourceRules) == 0 {
			// a binding without rules matches all requests that its policy matches
			last.ResourceRules = []resourceRule{{APIGroups: []string{"*"}, Resources: []string{"*"}}}
		}
	case strings.HasSuffix(o.GetKind(), "AdmissionPolicy"):
		constraints, _ := spec["matchConstraints"].(map[string]any)
		constraints = maps.Clone(constraints)
		if constraints == nil {
			constraints = map[string]any{}
		}
		constraints["matchConditions"] = spec["matchConditions"]
		read(constraints, "spec.matchConstraints")
	default:
		webhooks, err := listAt(o, "webhooks")
		if err != nil {
			return nil, "webhooks cannot be read: " + err.Error()
		}
		for n, entry := range webhooks {
			raw, _ := entry.(map[string]any)
			read(raw, fmt.Sprintf("webhooks[%d]", n))
		}
	}
	return all, problem
}

func isBinding(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().Group == AdmissionGroup && strings.HasSuffix(o.GetKind(), "AdmissionPolicyBinding")
}

// matchesTarget reports whether the interceptor's rules match requests for a target.
func (in interceptor) matchesTarget(t target) bool {
	return slices.ContainsFunc(in.allRules(), func(r resourceRule) bool { return r.matchesTarget(t) })
}

// namesTarget reports whether a rule matches a target by the name of its group or resource, not only by wildcards.
func (in interceptor) namesTarget(t target) bool {
	return slices.ContainsFunc(in.allRules(), func(r resourceRule) bool {
		named := slices.Contains(r.APIGroups, t.group) ||
			slices.ContainsFunc(r.Resources, func(resource string) bool {
				return strings.HasPrefix(resource, t.resource)
			})
		return named && r.matchesTarget(t)
	})
}

func (in interceptor) allRules() []resourceRule { return slices.Concat(in.Rules, in.ResourceRules) }

func (r resourceRule) matchesTarget(t target) bool {
	if len(r.Operations) > 0 &&
		!slices.ContainsFunc(r.Operations, func(operation string) bool { return operation != "CONNECT" }) {
		return false // the agent sends no CONNECT requests, such as exec
	}
	namespaced := !t.inCluster && t.resource != "namespaces"
	if r.Scope == "Cluster" && namespaced || r.Scope == "Namespaced" && !namespaced {
		return false
	}
	wanted, wantedSub, _ := strings.Cut(t.resource, "/")
	return slices.ContainsFunc(r.APIGroups, func(group string) bool { return group == "*" || group == t.group }) &&
		slices.ContainsFunc(r.Resources, func(pattern string) bool {
			resource, sub, _ := strings.Cut(pattern, "/")
			switch {
			case resource != "*" && resource != wanted:
				return false
			case wantedSub != "":
				return sub == "*" || sub == wantedSub
			}
			return !slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, sub)
		})
}

// excludesTarget reports whether an object selector excludes all of a target's objects.
func excludesTarget(selector *metav1.LabelSelector, t target) bool {
	if t.labels == nil {
		return false
	}
	return slices.ContainsFunc(selectorRequirements(selector), func(r labels.Requirement) bool {
		return !slices.ContainsFunc(openLabels, func(open string) bool { return strings.HasPrefix(r.Key(), open) }) &&
			!r.Matches(t.labels)
	})
}

// excludesNamespace reports whether the interceptor excludes the agent's namespace by its name. The exclusion can be in
// the namespace selector or in a match condition.
func (in interceptor) excludesNamespace(agentNamespace string) bool {
	byName := slices.ContainsFunc(selectorRequirements(in.NamespaceSelector), func(r labels.Requirement) bool {
		return r.Key() == corev1.LabelMetadataName && !r.Matches(labels.Set{corev1.LabelMetadataName: agentNamespace})
	})
	for _, condition := range in.MatchConditions {
		expression, _ := strings.CutPrefix(strings.TrimSpace(condition.Expression), "!has(request.namespace) || ")
		byName = byName || slices.Contains([]string{
			`request.namespace != "` + agentNamespace + `"`, `request.namespace != '` + agentNamespace + `'`,
			`request.namespace!="` + agentNamespace + `"`, `request.namespace!='` + agentNamespace + `'`,
		}, expression)
	}
	return byName
}

// selectorRequirements returns all of a selector's requirements. The result is empty for a missing or invalid selector.
func selectorRequirements(selector *metav1.LabelSelector) []labels.Requirement {
	if selector == nil {
		return nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	found, _ := parsed.Requirements()
	return found
}

// selectorMatches reports whether a selector matches labels. A missing or invalid selector matches.
func selectorMatches(selector *metav1.LabelSelector, found labels.Set) bool {
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || s.Matches(found)
}
