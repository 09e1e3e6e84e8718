package assemble

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mail}\n"

func inProcess(_ context.Context, in render.Input) ([]*unstructured.Unstructured, error) {
	return render.Render(in)
}

func TestCheckAcceptsKubectlFormats(t *testing.T) {
	deployment := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"image":"b.example/x:1"}]}}}}`
	for name, c := range map[string]struct {
		files  map[string]string
		images []string
	}{
		"List without a name": {
			map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems: [" + deployment + "]\n"},
			[]string{"b.example/x:1"},
		},
		"DeploymentList": {
			map[string]string{"a.yaml": "apiVersion: apps/v1\nkind: DeploymentList\nitems: [{metadata: {name: a}}]\n"},
			nil,
		},
		"JSON file": {map[string]string{"a.json": deployment}, []string{"b.example/x:1"}},
		"JSON file with an extension in upper case": {
			map[string]string{"A.JSON": deployment, "b.yaml": configMap}, []string{"b.example/x:1"},
		},
		"YAML anchors": {
			map[string]string{"a.yaml": configMap + "data: &a {x: eA==}\nbinaryData: {<<: *a}\n"}, nil,
		},
		"object of 2 MiB": {
			map[string]string{"a.yaml": configMap + "data: {a: \"" + strings.Repeat("x", 2<<20) + "\"}\n"}, nil,
		},
		"file without an extension": {map[string]string{"manifest": configMap}, nil},
	} {
		from := folder(t, c.files)
		if _, plain := c.files["manifest"]; plain {
			from = filepath.Join(from, "manifest")
		}
		files, err := Read(from)
		if err != nil {
			t.Fatal(err)
		}
		checked, err := files.Check(t.Context(), "mailer", inProcess)
		if err != nil || !slices.Equal(checked.Images, c.images) || checked.Ignored != nil {
			t.Errorf("%s: got %+v and error %v, want images %v", name, checked, err, c.images)
		}
	}
}

func TestLaterValuesOverrideEarlierValues(t *testing.T) {
	dir := folder(t, map[string]string{
		"one.yaml": "a: {b: 1, c: 2}\nd: [1]\n", "two.yaml": "a: {b: 3, e: null}\nd: [2]\n",
	})
	files := Files{Type: typeChart}
	if err := files.SetValues([]string{filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")},
		[]string{"a.f=x,g=true"}); err != nil {
		t.Fatal(err)
	}
	if want := "a:\n  b: 3\n  c: 2\n  e: null\n  f: x\nd:\n- 2\ng: true\n"; string(files.Values) != want {
		t.Errorf("got values %s, want %s", files.Values, want)
	}
	made, err := New("example.org/mailer", "1.0.0", "example.org", files, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	selected, err := bundle.Select(made.Descriptor)
	if err != nil || selected.Values == nil {
		t.Fatalf("got selection %+v and error %v, want one with values", selected, err)
	}
	if err := ocm.CheckContent(*selected.Values, files.Values); err != nil {
		t.Error(err)
	}
	if _, blobs, err := made.manifest(); err != nil || len(blobs) != 4 {
		t.Errorf("got %d blobs and error %v, want 4", len(blobs), err)
	}
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFilesDetermineInstallType(t *testing.T) {
	mailer := map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: mailer\nversion: 1.0.0\n",
		"templates/config.yaml": configMap,
		"values.yaml":           "a: 1\n",
		".helmignore":           "*.md\n",
		"README.md":             "for people",
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  v1beta2.ImageSpecType
	}{
		"folder with manifests": {
			map[string]string{"a.yaml": configMap,
				"deep/b.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`}, v1beta2.OCIDir,
		},
		"folder with a kustomization": {
			map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap}, v1beta2.Kustomize,
		},
		"folder with a chart": {mailer, v1beta2.HelmChart},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := Read(folder(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			second, err := Read(folder(t, c.files))
			if err != nil || !bytes.Equal(first.Packed, second.Packed) {
				t.Errorf("second pack of equal files: got other bytes or error %v", err)
			}
			made, err := New("example.org/mailer", "1.0.0", "example.org", first, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := first.Check(t.Context(), "mailer", inProcess); err != nil {
				t.Error(err)
			}
			selected, err := bundle.Select(made.Descriptor)
			if err != nil || selected.Type != c.want {
				t.Errorf("got install type %s and error %v, want %s", selected.Type, err, c.want)
			}
			if err := ocm.CheckContent(selected.Install, first.Packed); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("Helm reads the packed chart without ignored files", func(t *testing.T) {
		packed, err := Read(folder(t, mailer))
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := loader.LoadArchive(bytes.NewReader(packed.Packed))
		if err != nil || loaded.Name() != "mailer" || len(loaded.Templates) != 1 ||
			slices.ContainsFunc(loaded.Raw, func(f *chart.File) bool { return f.Name == "README.md" }) {
			t.Fatalf("got chart %+v and error %v, want mailer without README.md", loaded, err)
		}
		archive := filepath.Join(t.TempDir(), "mailer-1.0.0.tgz")
		if err := os.WriteFile(archive, packed.Packed, 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := Read(archive); err != nil || !bytes.Equal(again.Packed, packed.Packed) ||
			again.Type != packed.Type {
			t.Errorf("chart archive: got type %s, %v", again.Type, err)
		}
	})
}

func TestErrorNamesTheHiddenFileThatIsNotPacked(t *testing.T) {
	files, err := Read(folder(t, map[string]string{
		"kustomization.yaml": "secretGenerator: [{name: a, envs: [.env]}]\n", ".env": "a=b\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = files.Check(t.Context(), "keda", inProcess)
	want := "hidden files are not packed (.env): if the kustomization refers to one, rename it"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
}

func TestOnlyRegularFilesArePacked(t *testing.T) {
	dir := folder(t, map[string]string{"a.yaml": configMap, ".git/config.yaml": "x: [", "README.md": "for people"})
	files, err := Read(dir)
	if err != nil || bytes.Contains(files.Packed, []byte("README")) || bytes.Contains(files.Packed, []byte(".git")) {
		t.Errorf("read folder: got error %v, want only YAML files to be packed", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "link.yaml is not a regular file") {
		t.Errorf("symbolic link: got error %v, want a refusal", err)
	}
}

func TestImagesBecomeResourcesWithNamesAndTags(t *testing.T) {
	const pin = "@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	made, err := New(
		"example.org/mailer",
		"1.0.0",
		"example.org",
		Files{Type: typeDirectory, MediaType: mediaTypeTar},
		[]string{
			"a.example/x/mailer:1.2.3" + pin, "b.example/y/mailer:1.2.3", "mailer", "a.example/tool:v20260101_ab",
		},
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range made.Descriptor.Resources[1:] {
		got = append(got, r.Name+":"+r.Version)
		if err := ocm.CheckVersion(r.Version); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"mailer:1.2.3", "mailer:1.2.3", "mailer:0.0.0-latest",
		"tool:0.0.0-v20260101-ab"}; !slices.Equal(got, want) {
		t.Errorf("got resources %v, want %v", got, want)
	}
	if made.Descriptor.Resources[2].ExtraIdentity["image"] != "b.example/y/mailer" ||
		made.Descriptor.Resources[1].Digest.Value != strings.TrimPrefix(pin, "@sha256:") {
		t.Errorf("got resources %+v, want an extra identity and the pinned digest", made.Descriptor.Resources)
	}
	if unpinned := made.UnpinnedImages(); len(unpinned) != 3 || made.Sign("release", nil, nil) == nil {
		t.Errorf("unpinned images %v are signed", unpinned)
	}
}

func TestFilesOutsideTheFolderAndLargeFilesAreRefused(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "kubeconfig.yaml")
	if err := os.WriteFile(secret, []byte(configMap), 0o600); err != nil {
		t.Fatal(err)
	}
	chartYAML := "apiVersion: v2\nname: mailer\nversion: 1.0.0\n"
	for name, files := range map[string]map[string]string{
		"chart":         {"Chart.yaml": chartYAML, "files/a.yaml": configMap},
		"kustomization": {"kustomization.yaml": "resources: []\n", "files/a.yaml": configMap},
		"manifests":     {"files/a.yaml": configMap},
	} {
		linked, large := folder(t, files), folder(t, files)
		if err := os.Symlink(secret, filepath.Join(linked, "files", "b.yaml")); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(linked); err == nil || !strings.Contains(err.Error(), "b.yaml is not a regular file") {
			t.Errorf("%s with a link out of the folder: got %v", name, err)
		}
		if err := os.Truncate(filepath.Join(large, "files", "a.yaml"), 1<<40); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(large); err == nil {
			t.Errorf("%s with a file of 1 TiB is accepted", name)
		}
	}
	for _, name := range []string{"chart.tgz", "manifests.yaml"} {
		path := filepath.Join(folder(t, map[string]string{name: ""}), name)
		if err := os.Truncate(path, 1<<40); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
			t.Errorf("%s of 1 TiB: got error %v, want the size limit", name, err)
		}
	}
}
