package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// account is a program's ServiceAccount, and the chart that has its rights.
type account struct{ namespace, name, chart string }

var (
	publisherAccount = account{sample.Namespace, "kcp-publisher", "kcp-publisher"}
	agentAccount     = account{v1beta2.RuntimeNamespace, "skr-agent", "skr-agent"}
)

// confine writes a kubeconfig for a program: as its ServiceAccount with the rights that the files give, or as the admin when there are none.
func confine(ctx context.Context, c *cluster.Cluster, admin client.Client, kubeconfig string, as account, files []string) error {
	if len(files) == 0 {
		return c.WriteKubeconfig(kubeconfig)
	}
	for _, file := range files {
		if err := ApplyChartFile(ctx, admin, as.chart, "rbac", file); err != nil {
			return err
		}
	}
	return c.WriteUserKubeconfig(kubeconfig, "system:serviceaccount:"+as.namespace+":"+as.name, "system:serviceaccounts", "system:serviceaccounts:"+as.namespace)
}

// ApplyChartFile applies all objects of a file of plain YAML in a chart, as `kubectl apply` would.
func ApplyChartFile(ctx context.Context, admin client.Client, path ...string) error {
	root, err := checkout()
	if err != nil {
		return err
	}
	name := filepath.Join(append([]string{root, "charts"}, path...)...)
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	for decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("fleet")); err != nil {
			return fmt.Errorf("%s: %s %s: %w", name, object.GetKind(), object.GetName(), err)
		}
	}
}

// Connect is a client with the rights of a kubeconfig, or of a user whom it may impersonate.
func Connect(kubeconfig, user string) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Impersonate.UserName = user
	return connect(config)
}
