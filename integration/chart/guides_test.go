package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/guides"
)

func guideBlocks(t *testing.T, page string) []guides.Block {
	t.Helper()
	blocks, err := guides.Read(filepath.Join("..", "..", "docs", page))
	require.NoError(t, err)
	return blocks
}

// operator runs commands from guides in a folder with the charts. $PATH contains the programs and Helm.
type operator struct {
	*testCluster
	dir string
	env []string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed")
	}
	binaries, err := fleet.Build()
	require.NoError(t, err)
	helm, err := program()
	require.NoError(t, err)
	g, path, dir := newTestCluster(t), t.TempDir(), t.TempDir()
	for name, at := range map[string]string{"kcp-publisher": binaries.Publisher, "skr-agent": binaries.Agent,
		"helm": helm} {
		require.NoError(t, os.Symlink(at, filepath.Join(path, name)))
	}
	charts, err := filepath.Abs(filepath.Join("..", "..", "charts"))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(charts, filepath.Join(dir, "charts")))
	home, kubeconfig := t.TempDir(), filepath.Join(dir, "kubeconfig")
	g.nameContexts(kubeconfig, "kcp", "berlin")
	return &operator{g, dir, append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig,
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)}
}

func (o *operator) follow(script string) {
	o.Helper()
	o.output(script)
}

func (o *operator) output(script string) string {
	o.Helper()
	command := exec.CommandContext(o.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir, command.Env = o.dir, o.env
	output, err := command.CombinedOutput()
	require.NoError(o, err, "%s\n%s", script, output)
	return string(output)
}

// steps runs the shell blocks with this name on a page.
func (o *operator) steps(page, name string) {
	o.Helper()
	blocks := guides.Named(guideBlocks(o.T, page), name)
	require.NotEmpty(o, blocks, name)
	for _, block := range blocks {
		o.follow(block.Script)
	}
}

// notes runs the kubectl commands in each chart's NOTES.txt.
func (o *operator) notes() {
	o.Helper()
	kyma := o.hold("Kyma", "kyma-system", "default", "", false)
	for release, commands := range map[string]int{"kcp-publisher": 2, "skr-agent": 2} {
		printed, ran := o.output("helm get notes "+release+" --namespace "+namespaces[release]), 0
		for line := range strings.Lines(printed) {
			// Skip commands for another context, because they need a second cluster.
			if command := strings.TrimSpace(line); strings.HasPrefix(command, "kubectl ") &&
				!strings.Contains(command, "--context RUNTIME ") {
				command, _, _ = strings.Cut(command, "   ") // three spaces precede the command's explanation
				o.follow(strings.ReplaceAll(command, "rollout status", "rollout status --watch=false"))
				ran++
			}
		}
		require.Equal(o, commands, ran, "number of kubectl commands in %s of %s:\n%s", "templates/NOTES.txt",
			release, printed)
	}
	require.NoError(o, o.api.Delete(o.Context(), kyma))
}

// uninstall runs the shell blocks with this name in docs/guides/uninstall.md.
func (o *operator) uninstall(name string) {
	o.Helper()
	o.steps("guides/uninstall.md", name)
}

func (o *operator) images() (all []string) {
	o.Helper()
	for _, name := range []string{"kcp-publisher", "skr-agent"} {
		var deployment appsv1.Deployment
		require.NoError(o,
			o.api.Get(o.Context(), client.ObjectKey{Namespace: namespaces[name], Name: name}, &deployment))
		all = append(all, deployment.Spec.Template.Spec.Containers[0].Image)
	}
	return all
}

// hold creates an object with a finalizer, or without one if finalizer is empty. If deleted is true, it also deletes
// the object, which then remains until the finalizer is removed.
func (o *operator) hold(kind, namespace, name, finalizer string, deleted bool) *unstructured.Unstructured {
	o.Helper()
	spec := map[string]any{"channel": "regular"}
	if kind == "Manifest" {
		spec = map[string]any{
			"remote": false, "install": map[string]any{
				"name": "raw-manifest", "source": map[string]any{"type": "oci-ref"},
			},
		}
	}
	object := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": v1beta2.GroupVersion.String(), "kind": kind, "spec": spec},
	}
	object.SetNamespace(namespace)
	object.SetName(name)
	if finalizer != "" {
		object.SetFinalizers([]string{finalizer})
	}
	require.NoError(o, o.api.Create(o.Context(), object))
	if deleted {
		require.NoError(o, o.api.Delete(o.Context(), object))
		require.NoError(o, o.api.Get(o.Context(), client.ObjectKeyFromObject(object), object),
			"the object was removed despite its finalizer")
	}
	return object
}

func (o *operator) gone(objects ...client.Object) {
	o.Helper()
	for _, object := range objects {
		err := o.api.Get(o.Context(), client.ObjectKeyFromObject(object), object)
		require.True(o, apierrors.IsNotFound(err) || meta.IsNoMatchError(err), "%s %s: %v",
			object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
	}
}

// The test runs every command in the guides to install and uninstall, and the Helm commands in the guide to upgrade, in
// one cluster. The publisher and the agent do not run there, so nothing removes finalizers from deleted objects.
func TestGuidesOnInstallingAndUninstallingWork(t *testing.T) {
	suite.Long(t) // the short suite runs TestHelmInstallsUpgradesAndRemovesTheCharts
	o, ctx := newOperator(t), t.Context()
	require.NoError(t, os.WriteFile(filepath.Join(o.dir, "ids"), []byte("tokyo paris\n"), 0o600))
	for _, block := range guideBlocks(t, "guides/install.md") {
		if !strings.HasPrefix(block.Script, "make ") { // the tests on kind build the images
			o.follow(block.Script)
		}
	}
	running := func(tag, wrong string) {
		t.Helper()
		require.Equal(t,
			[]string{"registry.example/kyma-pull/kcp-publisher:" + tag, "registry.example/kyma-pull/skr-agent:" + tag},
			o.images(), wrong)
	}
	running("1.0.0", "an upgrade forgot what was set")
	o.notes()
	o.steps("guides/upgrade-and-skew.md", "releases")
	running("1.1.0", "an upgrade forgot what was set")
	o.steps("guides/upgrade-and-skew.md", "releases-back")
	running("1.0.0", "the rollback did not restore the previous release")
	o.otherPages()

	t.Log("Uninstall the agent before its runtime's Kyma is deleted.")
	manifest := o.hold("Manifest", "kyma-system", "scaler", v1beta2.FinalizerManifest, false)
	kyma := o.hold("Kyma", "kcp-system", "berlin", v1beta2.FinalizerKyma, true)
	content := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kyma-system", Name: "content", Labels: map[string]string{"kyma-pull.dev/content": "part"},
		},
	}
	require.NoError(t, o.api.Create(ctx, content))
	o.follow("helm uninstall skr-agent --namespace kyma-system")
	require.NoError(t, o.api.Delete(ctx, manifest))
	o.uninstall("agent-first")
	o.gone(manifest)
	require.NoError(t, o.api.Get(ctx, client.ObjectKeyFromObject(kyma), kyma))
	require.Equal(t, "true", kyma.GetLabels()["kyma-pull.dev/runtime-gone"])
	o.uninstall("agent-leaves")
	o.gone(content, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: "skr-agent-bootstrap"},
	})

	t.Log("Uninstall the publisher before its runtimes.")
	webhook := `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://127.0.0.1:1/convert"},"conversionReviewVersions":["v1"]}}}}`
	o.follow("helm uninstall kcp-publisher --namespace kcp-system")
	require.NoError(t, o.api.Patch(ctx, o.definition(), client.RawPatch(types.MergePatchType, []byte(webhook))))
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "kcp-publisher.kyma-pull.dev"},
	}
	require.NoError(t, o.api.Create(ctx, configuration))
	o.uninstall("publisher-first")
	o.gone(kyma, configuration)
	require.NotEqual(t, "Webhook", string(o.definition().Spec.Conversion.Strategy))

	t.Log("Install both charts again and uninstall them in the documented order.")
	for _, page := range []string{"../charts/kcp-publisher/README.md", "../charts/skr-agent/README.md"} {
		for _, block := range guideBlocks(t, page) {
			o.follow(block.Script)
		}
	}
	berlin, tokyo := o.hold("Kyma", "kcp-system", "berlin", "", false), o.hold("Kyma", "kcp-system", "tokyo", "", false)
	o.uninstall("in-order")
	o.gone(berlin)
	o.uninstall("control-plane")
	o.gone(tokyo)
	o.uninstall("agent-definitions")
	require.True(t,
		apierrors.IsNotFound(o.api.Get(ctx, client.ObjectKey{Name: kymas},
			&apiextensionsv1.CustomResourceDefinition{})))
}
