package scenario

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// stockTool builds the oras command from its Go module and returns the folder with the program.
func stockTool(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-modfile=hack/tools/go.mod", "-o",
		filepath.Join(dir, "oras"), "oras.land/oras/cmd/oras")
	cmd.Dir = checkout
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("oras cannot be built from its Go module here: %v\n%s", err, output)
	}
	return dir
}

// blockAfter returns the first code block in the given language below a heading.
func blockAfter(t *testing.T, document, heading, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, document))
	must(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(section)
	if !found || block == nil {
		t.Fatalf("%s: section %q has no %s code block", document, heading, language)
	}
	return block[1]
}

// The test runs the commands in docs/guides/airgap.md.
func TestStockToolsMirrorAFleet(t *testing.T) {
	suite.Long(t) // the short suite runs TestKilledExportAndImportResume and TestExportFileCanBeCompressedAndSplit
	runInQueue(t)
	script := blockAfter(t, "docs/guides/airgap.md", "With other tools", "sh")
	binaries, err := fleet.Build()
	must(t, err)
	tool := stockTool(t)
	from, err := registry.Start(t.Context(), registry.Options{Address: "127.0.0.1:0"})
	must(t, err)
	t.Cleanup(func() { _ = from.Close() })
	to, err := registry.Start(t.Context(), registry.Options{Address: "127.0.0.1:0"})
	must(t, err)
	t.Cleanup(func() { _ = to.Close() })
	keys := filepath.Join(t.TempDir(), "keys")
	runProgram(t, 0, binaries.Publisher, "keys", "init", "--keys", keys)
	runProgram(t, 0, binaries.Publisher, "publish", "--from", filepath.Join(checkout, "docs/example"), "--to",
		from.Host()+"/fleet", "--keys", keys)

	// oras uses HTTP for localhost by default.
	local := func(r *registry.Registry) string {
		return strings.Replace(r.Host(), "127.0.0.1", "localhost", 1) + "/fleet"
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-e", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+tool+":"+os.Getenv("PATH"), "FROM="+local(from), "TO="+local(to))
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	must(t, from.Stop())
	output := runProgram(t, 0, binaries.Agent, "verify", to.Host()+"/fleet", "--trust", filepath.Join(keys, "root.json"),
		"--runtime", "berlin")
	if !strings.Contains(output, "scaler 1.7.0") {
		t.Errorf("unexpected output about the mirror's bundle:\n%s", output)
	}
	contentsAt(t, to, from.Host(), filepath.Join(keys, "root.json"), "berlin")
}

// contentsAt checks that the mirror has all of a bundle's content, in the repositories that an agent with `--mirror
// FROM=TO` reads.
func contentsAt(t *testing.T, mirror *registry.Registry, from, rootFile, runtime string) {
	t.Helper()
	registries, err := store.NewRegistries(store.Access{NoRetry: true})
	must(t, err)
	place, err := store.Open(mirror.Host()+"/fleet", registries)
	must(t, err)
	desired, err := place.Reading(t.Context(), bundle.DesiredRepository(runtime))
	must(t, err)
	fetched, err := store.Fetch(t.Context(), desired, bundle.TagDesired)
	must(t, err)
	data, err := os.ReadFile(rootFile)
	must(t, err)
	root, err := trust.ParseRoot(data)
	must(t, err)
	verified, err := bundle.Adopt(fetched, runtime, root)
	must(t, err)
	opened, err := store.FetchBundle(t.Context(), desired, verified)
	must(t, err)
	mirrored := bundle.Settings{Mirrors: map[string]string{from: mirror.Host()}}
	contents := 0
	for _, m := range opened.State.All() {
		for _, c := range m.Content {
			repository, err := registries.Repository(mirrored.MirroredName(c.Repository))
			must(t, err)
			_, err = store.FetchBlob(t.Context(), repository, c.Descriptor(), c.SizeBytes)
			must(t, err)
			contents++
		}
	}
	if contents == 0 {
		t.Error("the bundle has no contents, so the test checked nothing")
	}
}

func TestDocumentedZotSyncIsJSON(t *testing.T) {
	var config struct {
		Extensions struct {
			Sync struct {
				Registries []struct{ Content []struct{ Prefix string } }
			}
		}
	}
	must(t, json.Unmarshal([]byte(blockAfter(t, "docs/guides/airgap.md", "With other tools", "json")), &config))
	if r := config.Extensions.Sync.Registries; len(r) != 1 || len(r[0].Content) != 4 {
		t.Errorf("unexpected sync configuration %+v", config)
	}
}
