package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// account identifies a program's ServiceAccount and the chart with its permissions.
type account struct{ namespace, name, chart string }

var (
	publisherAccount = account{sample.Namespace, "kcp-publisher", "kcp-publisher"}
	agentAccount     = account{v1beta2.RuntimeNamespace, "skr-agent", "skr-agent"}
)

func (a account) user() string { return "system:serviceaccount:" + a.namespace + ":" + a.name }

// confine applies the RBAC files with a program's permissions and writes a kubeconfig for the program's
// ServiceAccount. If files is empty, the kubeconfig has all permissions.
func confine(
	ctx context.Context, c *cluster.Cluster, admin client.Client, kubeconfig string, as account, files []string,
) error {
	if len(files) == 0 {
		return c.WriteKubeconfig(kubeconfig)
	}
	for _, file := range files {
		if err := ApplyChartFile(ctx, admin, as.chart, "rbac", file); err != nil {
			return err
		}
	}
	return c.WriteUserKubeconfig(kubeconfig, as.user(), "system:serviceaccounts",
		"system:serviceaccounts:"+as.namespace)
}

// ApplyChartFile applies all objects in a chart's file, as `kubectl apply` does. The elements form the file's path,
// relative to the folder of the charts.
func ApplyChartFile(ctx context.Context, admin client.Client, elements ...string) error {
	objects, err := chartObjects(elements...)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
			client.FieldOwner("fleet")); err != nil {
			return fmt.Errorf("%s: %s %s: %w", path.Join(elements...), object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func chartObjects(elements ...string) (objects []*unstructured.Unstructured, err error) {
	file, err := charts.Permissions.Open(path.Join(elements...))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(elements...), err)
		}
		objects = append(objects, object)
	}
}

// Rights is the result of comparing the permissions in a chart with a program's requests. Lacked lists missing
// permissions, and Unused lists permissions that the program did not use, as VERB RESOURCE.GROUP NAME.
type Rights struct{ Lacked, Unused []string }

// PublisherRights compares the publisher's permissions in the control plane with its requests.
func (f *Fleet) PublisherRights() (Rights, error) {
	return compare(f.kcp, publisherAccount, f.options.PublisherRights)
}

// AgentRights compares the agent's permissions in the runtime with its requests. It ignores impersonated requests.
func (r *Runtime) AgentRights() (Rights, error) {
	return compare(r.cluster, agentAccount, r.fleet.options.AgentRights)
}

func compare(where Cluster, as account, files []string) (Rights, error) {
	c, here := where.(*cluster.Cluster)
	if !here {
		return Rights{}, errors.New("the account of a request can be determined only for an API server on this machine")
	}
	requests, err := c.Requests()
	if err != nil {
		return Rights{}, err
	}
	var rights Rights
	used := map[string]bool{}
	for _, q := range requests {
		if q.User != as.user() {
			continue
		}
		if q.As != "" {
			used[right("impersonate", "", "serviceaccounts", q.As[strings.LastIndex(q.As, ":")+1:])] = true
			continue
		}
		if !q.Allowed {
			rights.Lacked = append(rights.Lacked,
				right(q.Verb, q.Group, q.Resource, strings.Trim(q.Namespace+"/"+q.Name, "/")))
		}
		for _, name := range []string{"", q.Name} {
			used[right(q.Verb, q.Group, q.Resource, name)] = true
			used[right(q.Verb, "*", "*", "")] = true
		}
	}
	for _, file := range files {
		objects, err := chartObjects(as.chart, "rbac", file)
		if err != nil {
			return Rights{}, err
		}
		for _, object := range objects {
			for _, text := range listPermissions(object) {
				if !used[text] {
					rights.Unused = append(rights.Unused, text)
				}
			}
		}
	}
	return rights, nil
}

func right(verb, group, resource, name string) string {
	return strings.TrimSpace(verb + " " + strings.TrimSuffix(resource+"."+group, ".") + " " + name)
}

// listPermissions lists the permissions of a Role or ClusterRole, with a separate entry for each verb of each
// resource.
func listPermissions(object *unstructured.Unstructured) (all []string) {
	var role rbacv1.ClusterRole // a Role has the same field for rules
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
		return nil
	}
	for _, rule := range role.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all = append(all, right(verb, group, resource, name))
					}
				}
			}
		}
	}
	return all
}

// Connect returns a client with the permissions of a kubeconfig. If user is not empty, the client impersonates that
// user.
func Connect(kubeconfig, user string) (client.Client, error) {
	config, err := configOf(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Impersonate.UserName = user
	return connect(config)
}
