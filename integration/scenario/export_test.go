package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// unlistedImageModule contains the files for a module whose component descriptor does not list its image. An export
// finds the image only by rendering the chart.
var unlistedImageModule = map[string]string{
	"horn/Chart.yaml": "apiVersion: v2\nname: horn\nversion: 1.0.0\n",
	"horn/templates/horn.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: horn, namespace: kyma-system}\nspec:\n  " +
		"containers:\n  - {name: horn, image: {{ .Values.image | quote }}}\n",
	"fleet/kyma.yaml": "apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: ship, namespace: " +
		"kcp-system}\n" +
		"spec:\n  channel: regular\n  modules: [{name: horn}]\n",
	"fleet/release.yaml": "apiVersion: operator.kyma-project.io/v1beta2\nkind: ModuleReleaseMeta\nmetadata: {name: " +
		"horn, namespace: kcp-system}\n" +
		"spec:\n  moduleName: horn\n  ocmComponentName: example.org/module/horn\n  channels: [{channel: regular, " +
		"version: 1.0.0}]\n",
}

// The test follows docs/guides/airgap.md to export a runtime's bundle, and uses skr-agent as the renderer.
func TestExportContainsImagesFoundByRendering(t *testing.T) {
	runInQueue(t)
	binaries, err := fleet.Build()
	must(t, err)
	from, err := registry.Start(t.Context(), registry.Options{})
	must(t, err)
	t.Cleanup(func() { _ = from.Close() })
	own, err := registry.Start(t.Context(), registry.Options{})
	must(t, err)
	t.Cleanup(func() { _ = own.Close() })
	registries, err := store.NewRegistries(store.Access{})
	must(t, err)
	image := pushImage(t, registries, from.Host()+"/lab/horn", "1.0.0")
	dir := t.TempDir()
	for name, text := range unlistedImageModule {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "horn/values.yaml"), []byte("image: "+from.Host()+"/lab/horn:1.0.0\n"),
		0o600))
	s := newPlainShell(t, dir, binaries, "registry.ship.example", own.Host(), "registry.example", from.Host())
	created := s.run(
		"kcp-publisher component create example.org/module/horn:1.0.0 --from horn --to registry.example/components " +
			"--module-template fleet/horn.yaml -o json")
	var got struct{ Images []string }
	if err := json.Unmarshal([]byte(created), &got); err != nil || len(got.Images) > 0 {
		t.Fatalf("the component lists images, so the export does not need to render: %v\n%s", err, created)
	}
	if shown := s.run("kcp-publisher component show example.org/module/horn:1.0.0 --components " +
		"registry.example/components"); !strings.Contains(shown, "helmChart") {
		t.Errorf("the registry does not contain the created component:\n%s", shown)
	}
	s.run("kcp-publisher keys init --keys keys && cp keys/root.json . && kcp-publisher publish --from fleet --to " +
		"registry.example/fleet --components registry.example/components")

	there := lines(blocksOf(t, "docs/guides/airgap.md", 4)[0])
	s.run(there[0])
	must(t, from.Stop())
	if output := s.run(there[1]); !strings.Contains(output, "agents need --mirror "+from.Host()+"=") {
		t.Errorf("output does not list the settings that agents need:\n%s", output)
	}
	repository, err := registries.Repository(own.Host() + "/fleet/" + bundle.ImageRepository(from.Host()+"/lab/horn"))
	must(t, err)
	if found, err := repository.Resolve(t.Context(), "1.0.0"); err != nil || found.Digest != image.Descriptor.Digest {
		t.Errorf("got image %s (error %v), want %s", found.Digest, err, image.Descriptor.Digest)
	}
	if accepted := s.run(
		"skr-agent verify registry.ship.example/fleet --trust root.json --runtime ship"); !strings.Contains(accepted,
		"horn 1.0.0") {
		t.Errorf("the ship accepted an unexpected bundle:\n%s", accepted)
	}
}
