package chart

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

var examples = filepath.Join("..", "..", "docs", "gitops")

func example(t *testing.T, name string) (objects []unstructured.Unstructured) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(examples, name))
	require.NoError(t, err)
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(string(data)), 4096); ; {
		object := unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		objects = append(objects, object)
	}
}

func TestGitOpsGuideShowsTheExampleFiles(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "install-with-gitops.md"))
	require.NoError(t, err)
	var shown []string
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		shown = append(shown, block[1])
	}
	var files []string
	require.NoError(t, filepath.WalkDir(examples, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, shown, string(data), path)
		files = append(files, path)
		return nil
	}))
	require.Len(t, files, len(shown))
}

// gitOpsReleases returns the chart releases in the examples for Flux, Argo CD and Helm.
func gitOpsReleases(t *testing.T) map[string]Release {
	t.Helper()
	found := map[string]Release{}
	for _, side := range []string{"control-plane", "runtime"} {
		chart := map[string]string{"control-plane": "kcp-publisher", "runtime": "skr-agent"}[side]
		data, err := os.ReadFile(filepath.Join(examples, "helm", side+".values.yaml"))
		require.NoError(t, err)
		values := map[string]any{}
		require.NoError(t, yaml.UnmarshalStrict(data, &values))
		found["helm "+side] = release(t, chart, values)
		for _, object := range slices.Concat(example(t, "flux/"+side+".yaml"), example(t, "argocd/"+side+".yaml")) {
			r := Release{Name: chart}
			switch object.GetKind() {
			case "OCIRepository":
				require.Equal(t, chart, path.Base(nested(t, object.Object, "spec", "url")))
				continue
			case "HelmRelease":
				r.Values = nestedMap(t, object.Object, "spec", "values")
				r.Namespace = object.GetNamespace()
				require.Equal(t, chart, nested(t, object.Object, "spec", "chartRef", "name"))
			case "Application":
				r.Values = nestedMap(t, object.Object, "spec", "source", "helm", "valuesObject")
				r.Namespace = nested(t, object.Object, "spec", "destination", "namespace")
				require.Equal(t, chart, nested(t, object.Object, "spec", "source", "chart"))
			default:
				t.Fatalf("%s: unexpected kind %s", side, object.GetKind())
			}
			require.Equal(t, namespaces[chart], r.Namespace)
			r.Dir = filepath.Join("..", "..", "charts", chart)
			found[object.GetKind()+" "+side] = r
		}
	}
	require.Len(t, found, 6)
	return found
}

// kustomized builds the example overlays on a release's bases and returns their objects.
func kustomized(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	dir := t.TempDir()
	write := exec.CommandContext(t.Context(), "go", "run", "./hack/release", "-version", "1.0.0", "-images",
		"registry.example/kyma-pull", "-manifests", filepath.Join(dir, "base"))
	write.Dir = filepath.Join("..", "..")
	output, err := write.CombinedOutput()
	require.NoError(t, err, string(output))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "kustomize"), os.DirFS(filepath.Join(examples, "kustomize"))))
	found := map[string][]*unstructured.Unstructured{}
	for _, side := range []string{"control-plane", "runtime"} {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
			Run(filesys.MakeFsOnDisk(), filepath.Join(dir, "kustomize", side))
		require.NoError(t, err)
		for _, resource := range built.Resources() {
			text, err := resource.AsYAML()
			require.NoError(t, err)
			object := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal(text, &object.Object))
			found["kustomize "+side] = append(found["kustomize "+side], object)
		}
	}
	return found
}

func TestGitOpsExamplesInstall(t *testing.T) {
	all := kustomized(t)
	publisher := deployments(t, all["kustomize control-plane"])["kcp-publisher"].Spec.Template.Spec.Containers[0]
	require.Contains(t, publisher.Args, "--location=oci.example.org/fleet")
	require.Contains(t, publisher.Args, "--components=oci.example.org/modules")
	require.NotContains(t, strings.Join(publisher.Args, " "), "registry.example")
	require.Equal(t, "registry.example/kyma-pull/kcp-publisher:1.0.0", publisher.Image)
	require.Len(t, deployments(t, all["kustomize runtime"])["skr-agent"].Spec.Template.Spec.Tolerations, 1)
	for name, r := range gitOpsReleases(t) {
		all[name] = objectsOf(t, r)
	}
	g := newTestCluster(t)
	for _, namespace := range namespaces {
		require.NoError(t, g.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	}
	for name, objects := range all {
		for _, o := range objects {
			require.NoError(t, g.dryRun(o), "%s: %s %s", name, o.GetKind(), o.GetName())
		}
	}
	t.Run("the objects of Flux and Argo CD are valid", func(t *testing.T) {
		suite.Long(t)
		for _, file := range gitOpsDefinitions(t) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			for document := range strings.SplitSeq(string(data), "\n---\n") {
				o := &unstructured.Unstructured{}
				require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
				if o.GetKind() == "CustomResourceDefinition" {
					require.NoError(t,
						g.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o),
							client.FieldOwner("test")))
				}
			}
		}
		require.NoError(t, g.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "argocd"}}))
		for _, name := range []string{
			"flux/control-plane.yaml",
			"flux/runtime.yaml",
			"argocd/control-plane.yaml",
			"argocd/runtime.yaml",
		} {
			for _, o := range example(t, name) {
				served := o.GetKind() + " is served"
				require.NoError(t, fleet.Until(t.Context(), fleet.LongTimeout, served, func() (bool, string) {
					err := g.dryRun(&o)
					if err == nil || !meta.IsNoMatchError(err) {
						require.NoError(t, err, name)
						return true, ""
					}
					return false, err.Error()
				}))
				o.Object["spec"].(map[string]any)["sauce"] = map[string]any{}
				require.Error(t, g.dryRun(&o), "%s: fields are not validated", name)
			}
		}
	})
}

// dryRun creates an object as a dry run, which rejects unknown fields.
func (g *testCluster) dryRun(o *unstructured.Unstructured) error {
	return g.api.Apply(g.Context(), client.ApplyConfigurationFromUnstructured(o), client.DryRunAll,
		client.FieldOwner("test"), client.ForceOwnership)
}

// gitOpsModules maps Flux's and Argo CD's Go modules to the paths of their CRD files.
var gitOpsModules = map[string][]string{
	"github.com/controlplaneio-fluxcd/flux-operator@v0.58.0": {
		"config/data/flux/v2.9.4/source-controller.yaml",
		"config/data/flux/v2.9.4/helm-controller.yaml",
	},
	"github.com/argoproj/argo-cd/v3@v3.5.7": {"manifests/crds/application-crd.yaml"},
}

func gitOpsDefinitions(t *testing.T) (files []string) {
	t.Helper()
	for module, names := range gitOpsModules {
		download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
		download.Dir = t.TempDir() // outside this project's Go module
		output, err := download.Output()
		if err != nil {
			t.Skipf("%s is not available: %v %s", module, err, output)
		}
		var at struct{ Dir string }
		require.NoError(t, json.Unmarshal(output, &at))
		for _, name := range names {
			files = append(files, filepath.Join(at.Dir, name))
		}
	}
	return files
}

func nested(t *testing.T, object map[string]any, fields ...string) string {
	t.Helper()
	value, found, err := unstructured.NestedString(object, fields...)
	require.NoError(t, err)
	require.True(t, found, fields)
	return value
}

func nestedMap(t *testing.T, object map[string]any, fields ...string) map[string]any {
	t.Helper()
	value, found, err := unstructured.NestedMap(object, fields...)
	require.NoError(t, err)
	require.True(t, found, fields)
	return value
}
