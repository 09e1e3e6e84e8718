package modulerole

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// granted returns the rules of each generated RBAC object, one line for each rule.
func granted(t *testing.T, content string) map[string]string {
	t.Helper()
	made, err := Grant{Name: "set", Namespace: AgentNamespace, Account: "skr-agent"}.Objects(objects(t, content))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, o := range made {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			t.Fatal(err)
		}
		key := strings.TrimSuffix(object.GetKind()+" "+object.GetNamespace(), " ")
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		for _, r := range rules {
			line, err := yaml.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			found[key] += strings.Join(strings.Fields(string(line)), " ") + "\n"
		}
		if rules == nil {
			found[key] = "bound"
		}
	}
	return found
}

const scalers = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: scalers.example.org}
spec: {group: example.org, names: {kind: Scaler, plural: scalers}, scope: Namespaced}
`

func TestGrantedPermissionsMatchModuleObjects(t *testing.T) {
	configMap := func(namespace string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: " + namespace + "}\n"
	}
	const role = "apiVersion: rbac.authorization.k8s.io/v1\n"
	const jobs = "rules: [{apiGroups: [batch], resources: [jobs], verbs: [update]}]\n"
	named := func(group, resource, name string) string {
		return "apiGroups: - " + group + " resourceNames: - " + name + " resources: - " + resource +
			" verbs: - get - patch - delete"
	}
	for name, c := range map[string]struct {
		content, in string
		want, not   []string
	}{
		"cluster permissions only list and watch kinds": {
			configMap(AgentNamespace), "ClusterRole", []string{
				`apiGroups: - "" resources: - configmaps verbs: - list - watch`,
			}, []string{"- create", "- delete"},
		},
		"write permissions are limited to a namespace and name": {
			configMap("other"), "Role other", []string{
				`apiGroups: - "" resources: - configmaps verbs: - create`,
				named(`""`, "configmaps", "a"),
			}, nil,
		},
		"namespaced object without a namespace": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n", "Role " + AgentNamespace, []string{
				named("apps", "deployments", "a"),
			}, nil,
		},
		"cluster-scoped object": {
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}\n", "ClusterRole", []string{
				named("scheduling.k8s.io", "priorityclasses", "a"),
			}, nil,
		},
		"permissions for kinds that a module defines are not limited by name": {
			scalers, "ClusterRole",
			[]string{
				"apiGroups: - example.org resources: - scalers verbs: - get - list - watch - create - patch - delete",
				named("apiextensions.k8s.io", "customresourcedefinitions", "scalers.example.org"),
			},
			nil,
		},
		"permissions in a namespace that a module creates": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n---\n" + configMap("other"), "ClusterRole",
			[]string{named(`""`, "configmaps", "a"), `apiGroups: - '*' resources: - '*' verbs: - list`}, nil,
		},
		"shared namespace is labeled but not deleted": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\n", "ClusterRole",
			[]string{
				`resourceNames: - kube-system resources: - namespaces verbs: - get - list - patch`,
			}, []string{"- delete", "'*'"},
		},
		"rules of a module's ClusterRole are granted": {
			role + "kind: ClusterRole\nmetadata: {name: a}\n" + jobs, "ClusterRole",
			[]string{"apiGroups: - batch resources: - jobs verbs: - update"}, []string{"- escalate", "- bind"},
		},
		"rules of a module's Role are granted in its namespace": {
			role + "kind: Role\nmetadata: {name: a, namespace: other}\n" + jobs, "Role other",
			[]string{"apiGroups: - batch resources: - jobs verbs: - update"}, nil,
		},
		"aggregated ClusterRole requires escalate": {
			role + "kind: ClusterRole\nmetadata: {name: a}\naggregationRule: {clusterRoleSelectors: []}\n",
			"ClusterRole",
			[]string{"resourceNames: - a resources: - clusterroles verbs: - escalate"}, nil,
		},
		"role outside the modules requires bind": {
			role + "kind: RoleBinding\nmetadata: {name: a, namespace: other}\nroleRef: {kind: ClusterRole, name: " +
				"view}\n",
			"Role other",
			[]string{"resourceNames: - view resources: - clusterroles verbs: - bind"}, nil,
		},
		"token of a module's ServiceAccount": {
			"apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {name: a, namespace: other, " +
				"annotations: {kubernetes.io/service-account.name: scaler}}\n",
			"Role other",
			[]string{`resourceNames: - scaler resources: - serviceaccounts/token verbs: - create`}, nil,
		},
		"role in the modules does not require bind": {
			role + "kind: ClusterRole\nmetadata: {name: a}\n---\n" +
				role + "kind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {kind: ClusterRole, name: a}\n",
			"ClusterRole", nil, []string{"- bind"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := granted(t, c.content)
			for _, binding := range []string{strings.Replace(c.in, "Role", "RoleBinding", 1)} {
				if got[binding] != "bound" {
					t.Errorf("%s is missing in %v", binding, got)
				}
			}
			for _, want := range c.want {
				if !strings.Contains(got[c.in], want) {
					t.Errorf("%s does not contain %q:\n%s", c.in, want, got[c.in])
				}
			}
			for _, not := range c.not {
				// Ignore the permissions that every agent has.
				if strings.Contains(strings.ReplaceAll(got[c.in], granted(t, configMap(AgentNamespace))["ClusterRole"], ""),
					not) {
					t.Errorf("%s contains %q:\n%s", c.in, not, got[c.in])
				}
			}
		})
	}
}

func TestInvalidModuleObjectsAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"CustomResourceDefinition without a plural": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n",
			"CustomResourceDefinition a: spec.names.plural is required",
		},
		"binding without a role name": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a}\n",
			"RoleBinding a: roleRef.name is required",
		},
	} {
		if _, err := (Grant{Name: "set"}).Objects(objects(t, c.content)); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestRoleCoversAutoscalersAndStorageClasses(t *testing.T) {
	got := granted(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 1}\n---\n"+
		"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a, namespace: data}\n")
	for key, rules := range map[string][]string{
		"Role kyma-system": {
			"apiGroups: - autoscaling resources: - horizontalpodautoscalers verbs: - list\n",
			"apiGroups: - keda.sh resources: - scaledobjects verbs: - list\n",
		},
		"ClusterRole": {"apiGroups: - storage.k8s.io resources: - storageclasses verbs: - list\n"},
	} {
		for _, rule := range rules {
			if !strings.Contains(got[key], rule) {
				t.Errorf("%s: got rules %s, want %s", key, got[key], rule)
			}
		}
	}
	if strings.Contains(got["Role data"], "horizontalpodautoscalers") {
		t.Errorf("the namespace without workloads has rules for autoscalers: %s", got["Role data"])
	}
}
