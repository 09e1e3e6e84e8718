package command

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// controlPlane is the API that people's commands read and write.
type controlPlane struct{ kubeconfig, namespace string }

// add adds the flags; in are the objects that the namespace has.
func (c *controlPlane) add(flags *pflag.FlagSet, in string) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the control plane; in a cluster its own is used")
	flags.StringVar(&c.namespace, "namespace", "kcp-system", "namespace of "+in)
}

// config returns how to reach the API server.
func (c *controlPlane) config() (*rest.Config, error) {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.ExplicitPath = c.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

// newScheme returns the kinds that people's commands know.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(corev1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), v1beta2.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

func (c *controlPlane) connect() (client.Client, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}
