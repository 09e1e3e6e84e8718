// Package controlplane connects commands to the control plane. It contains the connection flags, name completion, and
// functions that read Kymas, table rows and the state of the fleet.
package controlplane

import (
	"errors"

	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// DefaultNamespace is the default namespace of the control plane.
const DefaultNamespace = "kcp-system"

// Flags selects a control plane, and the namespace of its objects.
type Flags struct {
	Cluster    cli.Cluster
	Namespace  string
	Everywhere bool
}

// Add adds the flags that select the control plane. objects is a phrase, such as "the Kymas", that completes the help
// text of --namespace.
func (c *Flags) Add(flags *pflag.FlagSet, objects string) {
	AddNamespaceFlag(flags, &c.Namespace, objects)
	c.Cluster.AddFlags(flags, "the control plane")
	c.Cluster.AddTimeoutFlag(flags)
}

// AddEverywhere adds the flag --all-namespaces.
func (c *Flags) AddEverywhere(flags *pflag.FlagSet) {
	flags.BoolVarP(&c.Everywhere, "all-namespaces", "A", false, "list objects in all namespaces instead of --namespace")
}

// Scope returns the namespace of the objects to list, or "" for all namespaces.
func (c *Flags) Scope() string {
	if c.Everywhere {
		return ""
	}
	return c.Namespace
}

// AddNamespaceFlag adds the flag --namespace. The help text ends with the selected objects, such as "the Kymas".
func AddNamespaceFlag(flags *pflag.FlagSet, into *string, of string) {
	flags.StringVarP(into, "namespace", "n", DefaultNamespace, "namespace of "+of)
	cli.RequireValues(flags, "namespace")
}

// Connect returns a client for the control plane.
func (c *Flags) Connect() (client.Client, error) {
	config, err := c.Cluster.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// Tables returns a client that requests Kymas as tables.
func (c *Flags) Tables() (rest.Interface, error) {
	config, err := c.Cluster.Config()
	if err != nil {
		return nil, err
	}
	return NewTableClient(config)
}

// NewScheme returns a scheme with the types that commands read and write.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme,
		errors.Join(corev1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), v1beta2.AddToScheme(scheme),
			v1alpha1.AddToScheme(scheme))
}

// NewTableClient returns a client that requests Kymas as tables, as kubectl get does.
func NewTableClient(config *rest.Config) (rest.Interface, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	version := v1beta2.GroupVersion
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &version,
		serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}

// DescribeNamespace returns the selected namespaces as text for messages.
func (c *Flags) DescribeNamespace() string {
	if c.Everywhere {
		return "any namespace"
	}
	return "namespace " + c.Namespace
}
