package component

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/archive"
)

const testComponent = "kyma-pull.dev/module/test"

const testDescriptor = `
meta: {schemaVersion: v2}
component:
  name: kyma-pull.dev/module/test
  version: 1.0.0
  resources:
  - {name: raw-manifest, version: 1.0.0, type: directoryTree, access: {type: localBlob, localReference: %s, mediaType: application/x-tar}}
`

func archiveWith(
	t *testing.T, descriptor string, spoil func(blobs map[digest.Digest][]byte, manifest map[string]any),
) *archive.Archive {
	t.Helper()
	content := []byte("content of the module")
	if strings.Contains(descriptor, "%s") {
		descriptor = fmt.Sprintf(descriptor, digest.FromBytes(content))
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "component-descriptor.yaml", Mode: 0o644,
		Size: int64(len(descriptor))}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte(descriptor))
	_ = w.Close()
	blobs := map[digest.Digest][]byte{}
	describe := func(mediaType string, data []byte) map[string]any {
		blobs[digest.FromBytes(data)] = data
		return map[string]any{"mediaType": mediaType, "digest": digest.FromBytes(data), "size": len(data)}
	}
	descriptorLayer := describe("application/vnd.ocm.software.component-descriptor.v2+yaml+tar", layer.Bytes())
	config, _ := json.Marshal(map[string]any{"componentDescriptorLayer": descriptorLayer})
	manifest := map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": describe("application/vnd.ocm.software.component.config.v1+json", config),
		"layers": []any{descriptorLayer, describe("application/x-tar", content)},
	}
	if spoil != nil {
		spoil(blobs, manifest)
	}
	image, _ := json.Marshal(manifest)
	blobs[digest.FromBytes(image)] = image
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "blobs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for d, data := range blobs {
		if err := os.WriteFile(filepath.Join(dir, "blobs", "sha256."+d.Encoded()), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index := fmt.Sprintf(
		`{"schemaVersion":1,"artifacts":[{"repository":"component-descriptors/%s","tag":"1.0.0","digest":"%s"}]}`,
		testComponent, digest.FromBytes(image))
	if err := os.WriteFile(filepath.Join(dir, "artifact-index.json"), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func TestInvalidComponentVersionIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		descriptor string
		spoil      func(map[digest.Digest][]byte, map[string]any)
		want       string
	}{
		"valid component version":       {testDescriptor, nil, ""},
		"descriptor that is not YAML":   {"a: [", nil, "component descriptor: document 1"},
		"unsupported descriptor schema": {"meta: {schemaVersion: v1}", nil, "meta.schemaVersion"},
		"descriptor for a different component": {
			strings.Replace(testDescriptor, "module/test", "module/other", 1), nil, "kyma-pull.dev/module/other",
		},
		"local blob that is not a layer": {
			strings.ReplaceAll(testDescriptor, "%s", digest.FromString("x").String()), nil,
			"component.resources[0].access.localReference",
		},
		"changed descriptor layer": {testDescriptor, func(blobs map[digest.Digest][]byte, m map[string]any) {
			d := m["layers"].([]any)[0].(map[string]any)["digest"].(digest.Digest)
			blobs[d] = append([]byte{}, blobs[d]...)
			blobs[d][600] ^= 1
		}, ": its content has digest sha256:"},
		"manifest without layers": {
			testDescriptor, func(_ map[digest.Digest][]byte, m map[string]any) { m["layers"] = []any{} },
			"is not a component version",
		},
		"layers that are not a list": {
			testDescriptor, func(_ map[digest.Digest][]byte, m map[string]any) { m["layers"] = "x" }, "manifest: json",
		},
		"config with a different type": {
			testDescriptor, func(_ map[digest.Digest][]byte, m map[string]any) { m["config"] = m["layers"].([]any)[1] },
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reader := NewReader(Options{
				Sources: []Source{archiveWith(t, c.descriptor, c.spoil)}, Revalidate: time.Minute,
				RetryAfter: time.Minute,
			})
			_, err := reader.Component(t.Context(), testComponent, "1.0.0")
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), testComponent+":1.0.0") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestUnusedComponentResourcesCanBeMissing(t *testing.T) {
	w := newWorld(t)
	a := archiveWith(t, testDescriptor, func(_ map[digest.Digest][]byte, m map[string]any) {
		m["subject"] = map[string]any{
			"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest.FromString("all components"),
			"size": 14,
		}
	})
	reader := w.reader(func(o *Options) { o.Sources = []Source{a} })
	c, err := reader.Component(t.Context(), testComponent, "1.0.0")
	w.must(err)
	for range 2 {
		content, err := reader.Content(t.Context(), c, c.Descriptor.Resources[0], w.place())
		w.must(err)
		if got := w.there(content); got != "content of the module" {
			t.Errorf("content in %s: got %q", content.Repository, got)
		}
	}
}
