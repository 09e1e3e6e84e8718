// Package cosign runs the commands in docs/guides/provenance.md on artifacts in a real registry. crane, jq (gojq) and
// cosign are built from their Go modules.
package cosign

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

type tools struct {
	checkout, publisher string
	// path is the folder with the programs crane, jq and cosign.
	path string
}

// stock maps the third-party programs that the documentation uses to their Go packages.
var stock = map[string]string{
	"crane": "github.com/google/go-containerregistry/cmd/crane", "jq": "github.com/itchyny/gojq/cmd/gojq",
	"cosign": "github.com/sigstore/cosign/v3/cmd/cosign",
}

func build(t *testing.T) tools {
	t.Helper()
	checkout, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	built := tools{checkout: checkout, publisher: filepath.Join(t.TempDir(), "kcp-publisher"), path: t.TempDir()}
	pinned := filepath.Join(checkout, "hack", "cosign")
	if out, err := in(t, pinned, "go", "mod", "download"); err != nil {
		t.Skipf("the modules of crane, jq and cosign cannot be downloaded: %v\n%s", err, out)
	}
	for name, program := range stock {
		must(t, pinned, "go", "build", "-o", filepath.Join(built.path, name), program)
	}
	must(t, checkout, "go", "build", "-o", built.publisher, "./kcp-publisher")
	return built
}

func in(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := in(t, dir, name, args...)
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return out
}

// documented returns the page's commands in order.
func documented(t *testing.T, checkout string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(checkout, "docs", "guides", "provenance.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	if len(commands) != 9 {
		t.Fatalf("the page has %d commands, want 9: %v", len(commands), commands)
	}
	return commands
}

// shell runs a command line in a folder.
func (b tools) shell(t *testing.T, dir, line string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-ec", line)
	command.Dir, command.Env = dir, append(os.Environ(), "PATH="+b.path+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	return string(out), err
}

func (b tools) accepted(t *testing.T, dir, line string) string {
	t.Helper()
	out, err := b.shell(t, dir, line)
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

func (b tools) refused(t *testing.T, dir, line string) {
	t.Helper()
	out, err := b.shell(t, dir, line)
	if exited := (*exec.ExitError)(nil); !errors.As(err, &exited) {
		t.Errorf("%s: %v, want a rejection\n%s", line, err, out)
	}
	t.Logf("%s\n%s", line, strings.TrimSpace(out))
}

func TestProvenanceGuideCommandsWork(t *testing.T) {
	built := build(t)
	r, err := registry.Start(context.WithoutCancel(t.Context()), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	keys := filepath.Join(t.TempDir(), "keys")
	must(t, built.checkout, built.publisher, "keys", "init", "--keys", keys)
	location, dir := r.Host()+"/fleet", t.TempDir()
	must(t, built.checkout, built.publisher, "publish", "--from", "docs/example", "--to", location, "--keys", keys)
	root, err := os.ReadFile(filepath.Join(keys, "root.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "root.json"), root, 0o600); err != nil {
		t.Fatal(err)
	}
	commands := documented(t, built.checkout)
	for i := range commands {
		commands[i] = strings.ReplaceAll(commands[i], "REGISTRY/PATH", location)
	}
	outputs := map[string]string{}
	for _, line := range commands {
		t.Run(line, func(t *testing.T) {
			outputs[strings.Fields(line)[0]] += built.accepted(t, dir, line)
			if strings.HasPrefix(line, "cosign ") {
				built.refused(t, dir, strings.ReplaceAll(line, "publisher.pub", otherKey(t, dir)))
			}
		})
	}
	if !strings.Contains(outputs["jq"], `"runtime": "berlin"`) || !strings.Contains(outputs["crane"], bundle.TagRoot+"1") {
		t.Errorf("jq reports %s, crane reports %s", outputs["jq"], outputs["crane"])
	}
	attestation := commands[slices.IndexFunc(commands, func(line string) bool {
		return strings.HasPrefix(line, "cosign verify-blob-attestation")
	})]
	t.Run("different blob is rejected", func(t *testing.T) {
		built.refused(t, dir, strings.TrimSuffix(attestation, "desired-state.json")+"attestation.json")
	})
	t.Run("different predicate type is rejected", func(t *testing.T) {
		built.refused(t, dir, strings.ReplaceAll(attestation, bundle.PredicateDesiredState, bundle.PredicateReport))
	})
}

func otherKey(t *testing.T, dir string) string {
	t.Helper()
	file, err := trust.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.LoadSigner(file)
	if err != nil {
		t.Fatal(err)
	}
	public, err := trust.PublicKeyPEM(signer)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "other.pub")
	if err := os.WriteFile(path, public, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
