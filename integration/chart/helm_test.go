package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
)

// testCluster is an empty cluster with Helm.
type testCluster struct {
	*testing.T
	api        client.Client
	kubeconfig string
}

func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Progress: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	api, err := client.New(c.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return &testCluster{t, api, c.Kubeconfig()}
}

// program returns the path of Helm, which is built once.
var program = sync.OnceValues(func() (string, error) {
	var output []byte
	for _, args := range [][]string{{"tool", "-modfile=hack/helm/go.mod", "helm", "version"},
		{"tool", "-modfile=hack/helm/go.mod", "-n", "helm"}} {
		command := exec.Command("go", args...)
		command.Dir = filepath.Join("..", "..")
		var err error
		if output, err = command.Output(); err != nil {
			return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
	}
	return strings.TrimSpace(string(output)), nil
})

func (g *testCluster) helm(args ...string) (string, error) {
	g.Helper()
	path, err := program()
	require.NoError(g, err)
	command := exec.CommandContext(g.Context(), path, append([]string{"--kubeconfig", g.kubeconfig}, args...)...)
	command.Dir = filepath.Join("..", "..")
	home := g.TempDir()
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	output, err := command.CombinedOutput()
	return string(output), err
}

func (g *testCluster) must(args ...string) {
	g.Helper()
	output, err := g.helm(args...)
	require.NoError(g, err, output)
}

const kymas = "kymas.operator.kyma-project.io"

func (g *testCluster) definition() *apiextensionsv1.CustomResourceDefinition {
	g.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(g, g.api.Get(g.Context(), client.ObjectKey{Name: kymas}, crd))
	return crd
}

// hasCurrentCRD reports whether the cluster has the chart's current Kyma CRD.
func (g *testCluster) hasCurrentCRD() bool {
	return len(g.definition().Spec.Versions[1].AdditionalPrinterColumns) > 0
}

// older returns a copy of the publisher's chart with an older Kyma CRD, which lacks printer columns.
func older(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kcp-publisher")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "charts", "kcp-publisher"))))
	file := filepath.Join(dir, "files", "crds", "operator.kyma-project.io_kymas.yaml")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(data, crd))
	for i := range crd.Spec.Versions {
		require.NotEmpty(t, crd.Spec.Versions[i].AdditionalPrinterColumns)
		crd.Spec.Versions[i].AdditionalPrinterColumns = nil
	}
	data, err = yaml.Marshal(crd)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return dir
}

func TestHelmInstallsUpgradesAndRemovesTheCharts(t *testing.T) {
	g, ctx := newTestCluster(t), t.Context()
	values := []string{
		"--namespace", "kcp-system", "--create-namespace", "--values",
		"integration/chart/testdata/kcp-publisher-default.values.yaml",
	}
	publisher := func(verb, dir string, more ...string) []string {
		return append(append([]string{verb, "kcp-publisher", dir}, values...), more...)
	}

	// An operator applied the CRDs before installing the chart.
	data, err := charts.PublisherCRDs.ReadFile("kcp-publisher/files/crds/operator.kyma-project.io_kymas.yaml")
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(data, crd))
	require.NoError(t, g.api.Create(ctx, crd))
	output, err := g.helm(publisher("install", older(t))...)
	require.Error(t, err)
	require.Contains(t, output, "cannot be imported into the current release")
	g.must(publisher("install", older(t), "--take-ownership")...)
	require.False(t, g.hasCurrentCRD())

	// The publisher sets the conversion webhook in the CRD. A chart upgrade must keep this webhook.
	conversion := `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://127.0.0.1:1/convert"},"conversionReviewVersions":["v1"]}}}}`
	require.NoError(t, g.api.Patch(ctx, g.definition(), client.RawPatch(types.MergePatchType, []byte(conversion))))
	uid := g.definition().UID
	g.must(publisher("upgrade", "charts/kcp-publisher", "--set", "webhook.enabled=true")...)
	require.True(t, g.hasCurrentCRD(), "the CRD was not upgraded")
	require.Equal(t, apiextensionsv1.WebhookConverter, g.definition().Spec.Conversion.Strategy)
	g.must("rollback", "kcp-publisher", "--namespace", "kcp-system")
	require.False(t, g.hasCurrentCRD(), "the previous CRD was not restored")
	require.Equal(t, apiextensionsv1.WebhookConverter, g.definition().Spec.Conversion.Strategy)
	g.must(publisher("upgrade", "charts/kcp-publisher", "--set", "webhook.enabled=true")...)
	require.True(t, g.hasCurrentCRD(), "the CRD was not upgraded again")

	// The control plane's cluster is also a runtime.
	g.must("install", "skr-agent", "charts/skr-agent", "--namespace", "kyma-system", "--create-namespace")
	// In this installation, each module has its own ServiceAccount.
	require.NoError(t, g.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "platform"}}))
	g.must("upgrade", "skr-agent", "charts/skr-agent", "--namespace", "kyma-system", "--values",
		"integration/chart/testdata/skr-agent-full.values.yaml", "--set", "metrics.enabled=true", "--set",
		"metrics.serviceMonitor.enabled=false", "--set", "metrics.prometheusRule.enabled=false")

	g.acceptsEveryObject()
	g.conforms()
	for name, namespace := range namespaces {
		deployment := &appsv1.Deployment{}
		key := client.ObjectKey{Namespace: namespace, Name: name}
		require.NoError(t, g.api.Get(ctx, key, deployment))
		g.must("uninstall", name, "--namespace", namespace)
		require.True(t, apierrors.IsNotFound(g.api.Get(ctx, key, deployment)), name)
	}
	require.Equal(t, uid, g.definition().UID, "the CRD and all Kymas were deleted")
	g.must(publisher("install", "charts/kcp-publisher")...)
}

func TestMissingAndUnknownChartValuesAreReported(t *testing.T) {
	g := &testCluster{T: t, kubeconfig: os.DevNull}
	output, err := g.helm("template", "charts/kcp-publisher", "--kube-version", "1.36.3", "--set", "keys.secretName=a")
	require.Error(t, err)
	require.Contains(t, output, "location: is required; set it to the registry prefix HOST/PATH of the bundles")
	output, err = g.helm("template", "charts/kcp-publisher", "--kube-version", "1.36.3", "--set",
		"location=a/b,keys.secretName=a,replica=1")
	require.Error(t, err)
	require.Contains(t, output, "additional properties 'replica' not allowed")
}
