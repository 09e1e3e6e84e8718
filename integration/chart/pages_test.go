package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// nameContexts writes a kubeconfig with several contexts for the same cluster. The first name is the current context.
func (g *testCluster) nameContexts(path string, names ...string) {
	g.Helper()
	config, err := clientcmd.LoadFromFile(g.kubeconfig)
	require.NoError(g, err)
	for _, name := range names {
		config.Contexts[name] = config.Contexts[config.CurrentContext]
	}
	config.CurrentContext = names[0]
	require.NoError(g, clientcmd.WriteToFile(*config, path))
}

// define creates a CRD in place of another project's CRD. Its schema accepts every object.
func (g *testCluster) define(group, kind, plural string) {
	g.Helper()
	require.NoError(g, g.api.Create(g.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind:     kind,
				ListKind: kind + "List",
				Plural:   plural,
				Singular: strings.ToLower(kind),
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: new(true),
					},
				}},
			},
		},
	}))
	require.NoError(g, fleet.Until(g.Context(), fleet.LongTimeout, kind+" is served", func() (bool, string) {
		err := g.api.List(g.Context(), &unstructured.UnstructuredList{
			Object: map[string]any{"apiVersion": group + "/v1", "kind": kind},
		})
		return err == nil, fmt.Sprint(err)
	}))
}

// otherPages runs the commands on pages other than the installation guides, in a cluster with the charts. It replaces
// the pages' example names with the names of objects in the cluster.
func (o *operator) otherPages() {
	o.Helper()
	ctx := o.Context()
	o.define("monitoring.coreos.com", "ServiceMonitor", "servicemonitors")
	o.define("monitoring.coreos.com", "PrometheusRule", "prometheusrules")
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: "settings"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "ada"}},
	} {
		require.NoError(o, o.api.Create(ctx, object))
	}
	require.NoError(o, os.WriteFile(filepath.Join(o.dir, "client-secret"), []byte("secret"), 0o600))
	require.NoError(o, os.WriteFile(filepath.Join(o.dir, "reader.json"), []byte(`{"auths":{}}`), 0o600))
	require.NoError(o,
		sample.WriteArchive(ctx, filepath.Join(o.dir, "modules"), sample.Mailer("1.0.0"), sample.Mailer("1.1.0")))
	renamed := strings.NewReplacer(
		"NAME",
		"ada",
		"TENANTS",
		"tenants",
		"RUNTIME-ID",
		"berlin",
		"--kubeconfig RUNTIME",
		"--context berlin",
		"example.org/module/",
		"kyma-pull.dev/module/",
		"--components registry.example/modules",
		"--components ctf:modules",
		// This cluster does not run pods, so the test checks only that the Service exists.
		"port-forward service/kcp-publisher-ui 8085:80",
		"get service/kcp-publisher-ui",
	)
	for _, page := range []string{"guides/rights.md", "guides/ownership.md", "guides/notifications.md",
		"guides/monitoring.md", "guides/ui-in-cluster.md", "guides/migrate-from-lifecycle-manager.md"} {
		for _, block := range guideBlocks(o.T, page) {
			script := renamed.Replace(block.Script)
			if words := strings.Fields(script); words[0] == "skr-agent" ||
				words[0] == "kcp-publisher" && !strings.Contains(script, "kubectl") {
				continue // TestCommandsInDocsAreValid checks these commands
			}
			o.follow(script)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "ui-in-cluster.md"))
	require.NoError(o, err)
	values := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	require.NotNil(o, values)
	require.NoError(o, os.WriteFile(filepath.Join(o.dir, "oidc.yaml"), values[1], 0o600))
	o.follow(
		"helm upgrade kcp-publisher charts/kcp-publisher --namespace kcp-system --reset-then-reuse-values --values " +
			"oidc.yaml",
	)

	gone := o.hold("Kyma", "kcp-system", "ada", "", false)
	for _, block := range guideBlocks(o.T, "guides/repair.md") {
		o.follow(renamed.Replace(block.Script))
	}
	require.NoError(o, o.api.Get(ctx, client.ObjectKeyFromObject(gone), gone))
	require.Equal(o, "true", gone.GetLabels()["kyma-pull.dev/runtime-gone"])
	require.NoError(o, o.api.Delete(ctx, gone))
}
