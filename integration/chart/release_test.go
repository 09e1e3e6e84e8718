package chart

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"oras.land/oras-go/v2/content/oci"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// buildRelease builds a release from HEAD for this machine and returns its folder.
func buildRelease(t *testing.T, version string) string {
	t.Helper()
	clone, dir := filepath.Join(t.TempDir(), "clone"), filepath.Join(t.TempDir(), "dist")
	for _, args := range [][]string{
		{"git", "clone", "--quiet", "--no-hardlinks", filepath.Join("..", ".."), clone},
		{
			"go",
			"-C",
			clone,
			"run",
			"./hack/release",
			"-version",
			version,
			"-output",
			dir,
			"-platforms",
			"linux/" + runtime.GOARCH,
		},
	} {
		output, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, string(output))
	}
	return dir
}

// unpack extracts a program from a release archive.
func unpack(t *testing.T, archive, program, to string) {
	t.Helper()
	file, err := os.Open(archive)
	require.NoError(t, err)
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	for reader := tar.NewReader(zipped); ; {
		header, err := reader.Next()
		require.NoError(t, err, "%s does not contain %s", archive, program)
		if header.Name != program {
			continue
		}
		data, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, program), data, 0o755))
		return
	}
}

// The test uses only release files, and no files from the checkout.
func TestReleaseInstallsWithoutCheckout(t *testing.T) {
	suite.Long(t)
	const version = "0.1.0"
	dist, bin := buildRelease(t, version), t.TempDir()
	for _, program := range []string{"kcp-publisher", "skr-agent"} {
		unpack(t, filepath.Join(dist, program+"_"+version+"_linux_"+runtime.GOARCH+".tar.gz"), program, bin)
		output, code := fleet.Run(t.Context(), filepath.Join(bin, program), "--version")
		require.Zero(t, code, output)
		require.Contains(t, output, version)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	output, code := fleet.Run(t.Context(), filepath.Join(bin, "kcp-publisher"), "keys", "init", "--keys", keys)
	require.Zero(t, code, output)

	g, ctx := newTestCluster(t), t.Context()
	layout, err := oci.NewFromTar(ctx, filepath.Join(dist, "oci_"+version+".tar"))
	require.NoError(t, err)
	for name, namespace := range namespaces {
		args := []string{
			"install",
			name,
			filepath.Join(dist, name+"-"+version+".tgz"),
			"--namespace",
			namespace,
			"--create-namespace",
		}
		if name == "kcp-publisher" {
			args = append(args, "--set", "location=registry.example/fleet", "--set", "keys.secretName=fleet-keys")
		}
		g.must(args...)
		built, err := layout.Resolve(ctx, name+":"+version)
		require.NoError(t, err)
		var deployment appsv1.Deployment
		key := client.ObjectKey{Namespace: namespace, Name: name}
		require.NoError(t, g.api.Get(ctx, key, &deployment))
		require.Equal(t, "ghcr.io/kyma-pull/"+name+"@"+built.Digest.String(),
			deployment.Spec.Template.Spec.Containers[0].Image)
	}
	output, code = fleet.Run(ctx, filepath.Join(bin, "kcp-publisher"), "enroll", "berlin", "--keys", keys, "--location",
		"registry.example/fleet")
	require.Zero(t, code, output)
	for _, o := range documents(t, output) {
		require.NoError(t, g.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl")))
	}
	require.NoError(t,
		g.api.Get(ctx, client.ObjectKey{Namespace: "kyma-system", Name: "skr-agent-bootstrap"}, &corev1.Secret{}))

	// Replace the charts with the manifests.
	for name, namespace := range namespaces {
		g.must("uninstall", name, "--namespace", namespace)
		text, err := os.ReadFile(filepath.Join(dist, name+"-install_"+version+".yaml"))
		require.NoError(t, err)
		for _, o := range documents(t,
			strings.ReplaceAll(string(text), "registry.example/fleet", "oci.example.org/fleet")) {
			require.NoError(t,
				g.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl"),
					client.ForceOwnership), "%s %s", o.GetKind(), o.GetName())
		}
		require.NoError(t, g.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &appsv1.Deployment{}))
	}
}

func documents(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Rendered{Templates: map[string]string{"all": text}}.Objects()
	require.NoError(t, err)
	return objects
}
