package chart

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// The test builds and pushes a signed release from HEAD, and runs the commands in docs/guides/verify-a-release.md.
// cosign is built from its Go module.
func TestCosignVerifiesRelease(t *testing.T) {
	suite.Long(t)
	checkout, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	dir, tools, other := filepath.Join(t.TempDir(), "dist"), t.TempDir(), t.TempDir()
	clone := filepath.Join(t.TempDir(), "clone")
	t.Setenv("PATH", tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	run := func(in, program string, args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir = in
		output, err := command.CombinedOutput()
		return string(output), err
	}
	must := func(in, program string, args ...string) {
		t.Helper()
		output, err := run(in, program, args...)
		require.NoError(t, err, output)
	}
	pinned := filepath.Join(checkout, "hack", "cosign")
	must(pinned, "go", "build", "-o", filepath.Join(tools, "cosign"), "github.com/sigstore/cosign/v3/cmd/cosign")
	for _, folder := range []string{tools, other} {
		key := filepath.Join(folder, "release.key")
		must(folder, "openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
		must(folder, "openssl", "ec", "-in", key, "-pubout", "-out", filepath.Join(folder, "release.pub"))
	}
	r, err := registry.Start(context.WithoutCancel(t.Context()), registry.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	images := r.Host() + "/kyma-pull"
	must(checkout, "git", "clone", "--quiet", "--no-hardlinks", checkout, clone)
	release := []string{"run", "./hack/release", "-version", "0.2.0", "-output", dir, "-images", images}
	key := filepath.Join(tools, "release.key")
	must(clone, "go", append(release, "-platforms", "linux/"+runtime.GOARCH, "-key", key)...)
	must(clone, "go", append(release, "-push")...)

	page, err := os.ReadFile(filepath.Join(checkout, "docs", "guides", "verify-a-release.md"))
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```console\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, block, "the page has no cosign commands")
	for line := range strings.Lines(string(block[1])) {
		line = strings.ReplaceAll(strings.TrimSpace(line), "registry.example/kyma-pull", images)
		output, err := run(dir, "sh", "-ec", line)
		require.NoError(t, err, "%s\n%s", line, output)
		wrong := strings.ReplaceAll(line, "release.pub", filepath.Join(other, "release.pub"))
		output, err = run(dir, "sh", "-ec", wrong)
		require.Error(t, err, "%s\n%s", wrong, output)
	}
}
