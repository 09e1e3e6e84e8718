package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"
)

// guide returns the four shell blocks in docs/guides/verify-a-release.md.
func guide(t *testing.T) (verify, provenance, copyAll, rebuild string) {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").
		FindAllStringSubmatch(string(read(t, "../../docs/guides", "verify-a-release.md")), -1)
	if len(blocks) != 4 {
		t.Fatalf("the guide has %d shell blocks, and the test runs 4", len(blocks))
	}
	return blocks[0][1], blocks[1][1], blocks[2][1], blocks[3][1]
}

// copyFolder returns a copy of a folder.
func copyFolder(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "downloaded")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// tools returns a folder with oras and helm.
func tools(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ran(t, "../..", "go", "build", "-modfile=hack/tools/go.mod", "-o", filepath.Join(dir, "oras"),
		"oras.land/oras/cmd/oras")
	ran(t, "../..", "go", "tool", "-modfile=hack/helm/go.mod", "helm", "version") // builds helm into Go's cache
	helm := strings.TrimSpace(ran(t, "../..", "go", "tool", "-modfile=hack/helm/go.mod", "-n", "helm"))
	if err := os.Symlink(helm, filepath.Join(dir, "helm")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newRegistry returns an empty registry's host.
func newRegistry(t *testing.T) string {
	t.Helper()
	config := &configuration.Configuration{Storage: configuration.Storage{"inmemory": configuration.Parameters{}}}
	config.Log.AccessLog.Disabled, config.Log.Level = true, "error"
	server := httptest.NewServer(handlers.NewApp(t.Context(), config))
	t.Cleanup(server.Close)
	return "localhost:" + server.URL[strings.LastIndex(server.URL, ":")+1:]
}

// referrerTypes returns the artifact types and predicate types of an image's referrers, sorted.
func referrerTypes(t *testing.T, name, reference string) []string {
	t.Helper()
	repository, err := remote.NewRepository(name)
	if err != nil {
		t.Fatal(err)
	}
	repository.PlainHTTP = true
	image, err := repository.Resolve(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	if err := repository.Referrers(t.Context(), image, "", func(referrers []ocispec.Descriptor) error {
		for _, d := range referrers {
			types = append(types, d.ArtifactType+" "+d.Annotations["dev.sigstore.bundle.predicateType"])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(types)
	return types
}
