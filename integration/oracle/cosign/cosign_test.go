// Package cosign runs the stock tool's commands of docs/provenance.md, as they stand there, on what kcp-publisher pushes to a real
// registry. cosign is built from its Go module, pinned in hack/cosign.
package cosign

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// tools are where the programs were built.
type tools struct{ checkout, publisher, cosign string }

func build(t *testing.T) tools {
	t.Helper()
	checkout, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	built := tools{checkout: checkout, publisher: filepath.Join(t.TempDir(), "kcp-publisher"), cosign: filepath.Join(t.TempDir(), "cosign")}
	pinned := filepath.Join(checkout, "hack", "cosign")
	if out, err := in(t, pinned, "go", "mod", "download"); err != nil {
		t.Skipf("cosign's modules cannot be had: %v\n%s", err, out)
	}
	must(t, pinned, "go", "build", "-o", built.cosign, "github.com/sigstore/cosign/v3/cmd/cosign")
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

// documented are the cosign commands of the page, in order.
func documented(t *testing.T, checkout string) [][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(checkout, "docs", "provenance.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands [][]string
	for _, line := range regexp.MustCompile(`(?m)^cosign .*$`).FindAllString(string(page), -1) {
		commands = append(commands, strings.Fields(line)[1:])
	}
	if len(commands) != 3 {
		t.Fatalf("the page has %d cosign commands, want 3: %v", len(commands), commands)
	}
	return commands
}

// prepare does what the page asks for before the cosign commands, and gives the folder: the two jq commands and the fetching.
func prepare(t *testing.T, place *bundle.Place, rootFile string) string {
	t.Helper()
	dir := t.TempDir()
	save := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(rootFile)
	if err != nil {
		t.Fatal(err)
	}
	var root struct {
		Signed struct {
			Keys map[string]struct {
				Keyval struct{ Public string } `json:"keyval"`
			} `json:"keys"`
			Roles struct {
				Publisher struct{ Keyids []string } `json:"publisher"`
			} `json:"roles"`
		} `json:"signed"`
	}
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	save("publisher.pub", []byte(root.Signed.Keys[root.Signed.Roles.Publisher.Keyids[0]].Keyval.Public))

	repository, err := place.Repository(t.Context(), bundle.DesiredRepository("berlin"))
	if err != nil {
		t.Fatal(err)
	}
	fetched, err := bundle.Fetch(t.Context(), repository, bundle.TagDesired)
	if err != nil {
		t.Fatal(err)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(fetched.Bytes, &manifest); err != nil {
		t.Fatal(err)
	}
	save("attestation.json", []byte(manifest.Annotations[bundle.AnnotationAttestation]))
	for name, desc := range map[string]ocispec.Descriptor{"desired-state.json": manifest.Config, "catalog.json": manifest.Layers[0]} {
		blob, err := bundle.FetchBlob(t.Context(), repository, desc, bundle.MaxDocumentBytes)
		if err != nil {
			t.Fatal(err)
		}
		save(name, blob)
	}
	return dir
}

func TestThePagesCommands(t *testing.T) {
	built := build(t)
	r, err := registry.Start(context.WithoutCancel(t.Context()), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	registries, err := bundle.NewRegistries(bundle.Access{})
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	must(t, built.checkout, built.publisher, "keys", "init", "--keys", keys)
	publish := func(t *testing.T, prefix string, more ...string) string {
		t.Helper()
		location := r.Host() + "/" + prefix
		must(t, built.checkout, built.publisher, append([]string{"publish", "--from", "docs/example", "--to", location, "--keys", keys}, more...)...)
		place, err := bundle.NewPlace(location, registries)
		if err != nil {
			t.Fatal(err)
		}
		return prepare(t, place, filepath.Join(keys, "root.json"))
	}
	commands := documented(t, built.checkout)
	dir := publish(t, "attached", "--attach-cosign")
	at := func(prefix string, command []string) []string {
		text := strings.ReplaceAll(strings.Join(command, "\n"), "REGISTRY/PATH", r.Host()+"/"+prefix)
		return strings.Split(text, "\n")
	}
	for _, command := range commands {
		t.Run("cosign "+strings.Join(command, " "), func(t *testing.T) {
			must(t, dir, built.cosign, at("attached", command)...)
			other := otherKey(t, dir)
			for i, word := range command {
				if word == "publisher.pub" {
					command[i] = other
				}
			}
			wantRefused(t, dir, built.cosign, at("attached", command)...)
		})
	}
	commands = documented(t, built.checkout)
	t.Run("refused when the blob is another", func(t *testing.T) {
		swapped := append(commands[0][:len(commands[0])-1:len(commands[0])-1], "attestation.json")
		wantRefused(t, dir, built.cosign, swapped...)
	})
	t.Run("refused when the predicate type is another", func(t *testing.T) {
		text := strings.ReplaceAll(strings.Join(commands[0], "\n"), bundle.PredicateDesiredState, bundle.PredicateReport)
		wantRefused(t, dir, built.cosign, strings.Split(text, "\n")...)
	})
	t.Run("nothing is attached unless asked for", func(t *testing.T) {
		dir := publish(t, "plain")
		must(t, dir, built.cosign, commands[0]...)
		wantRefused(t, dir, built.cosign, at("plain", commands[2])...)
	})
}

func otherKey(t *testing.T, dir string) string {
	t.Helper()
	file, err := bundle.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := bundle.LoadSigner(file)
	if err != nil {
		t.Fatal(err)
	}
	public, err := bundle.PublicKeyPEM(signer)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "other.pub")
	if err := os.WriteFile(path, public, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantRefused(t *testing.T, dir, cosign string, args ...string) {
	t.Helper()
	out, err := in(t, dir, cosign, args...)
	if exited := (*exec.ExitError)(nil); !errors.As(err, &exited) {
		t.Errorf("cosign %v: %v, want it refused\n%s", args, err, out)
	}
	t.Logf("cosign says: %s", strings.TrimSpace(out))
}
