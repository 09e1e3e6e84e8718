package command

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

const defaultNamespace = "kcp-system"

type controlPlane struct {
	cluster    cli.Cluster
	namespace  string
	everywhere bool
}

// add adds the flags of the control plane. objects completes the help text of --namespace, such as "the Kymas".
func (c *controlPlane) add(flags *pflag.FlagSet, objects string) {
	namespaceFlag(flags, &c.namespace, objects)
	c.cluster.AddFlags(flags, "the control plane")
	c.cluster.AddTimeoutFlag(flags)
}

func (c *controlPlane) addEverywhere(flags *pflag.FlagSet) {
	flags.BoolVarP(&c.everywhere, "all-namespaces", "A", false, "list objects in all namespaces instead of --namespace")
}

// scope returns the namespace of the objects to list, or "" for all namespaces.
func (c *controlPlane) scope() string {
	if c.everywhere {
		return ""
	}
	return c.namespace
}

func namespaceFlag(flags *pflag.FlagSet, into *string, of string) {
	flags.StringVarP(into, "namespace", "n", defaultNamespace, "namespace of "+of)
}

func (c *controlPlane) connect() (client.Client, error) {
	config, err := c.cluster.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// tables returns a client that requests Kymas as tables.
func (c *controlPlane) tables() (rest.Interface, error) {
	config, err := c.cluster.Config()
	if err != nil {
		return nil, err
	}
	return newTableClient(config)
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme,
		errors.Join(corev1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), v1beta2.AddToScheme(scheme),
			v1alpha1.AddToScheme(scheme))
}

// newTableClient returns a client that requests Kymas as tables, like kubectl get.
func newTableClient(config *rest.Config) (rest.Interface, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	version := v1beta2.GroupVersion
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &version,
		serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}
