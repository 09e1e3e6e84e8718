package kind

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/integration/guides"
)

// TestFirstClustersTutorialWorks runs all of the tutorial's commands in one shell. It installs only files from the
// release in the folder $KYMA_PULL_RELEASE.
func TestFirstClustersTutorialWorks(t *testing.T) {
	dist := os.Getenv("KYMA_PULL_RELEASE")
	if dist == "" {
		t.Skip("KYMA_PULL_RELEASE is not set: run make test-first-clusters RELEASE=dist")
	}
	checkout, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	blocks, err := guides.Read(filepath.Join(checkout, "docs", "tutorials", "first-clusters.md"))
	require.NoError(t, err)
	_, version, err := release(dist).layout()
	require.NoError(t, err)
	programs, dir := t.TempDir(), t.TempDir()
	provideTools(t, checkout, programs)
	require.NoError(t, os.Symlink(dist, filepath.Join(dir, "dist")))
	script := waiting + tutorialScript(t, blocks, version)
	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir, command.Stdout, command.Stderr = dir, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	t.Cleanup(func() {
		cleanup := exec.Command("bash", "-c", blocks[len(blocks)-1].Script)
		cleanup.Env = command.Env
		_ = cleanup.Run() // the tutorial's last block has already removed everything if the test passed
	})
	require.NoError(t, command.Run())
}

// provideTools writes the programs kind and helm to a folder. kind starts clusters that work on this machine.
func provideTools(t *testing.T, checkout, programs string) {
	t.Helper()
	ctx := t.Context()
	m, err := inspect(ctx)
	require.NoError(t, err)
	m.nodeImage, err = NodeImage(ctx, checkout, os.Stderr)
	require.NoError(t, err)
	config := filepath.Join(programs, "kind.yaml")
	require.NoError(t, os.WriteFile(config, []byte(m.config()), 0o600))
	p := packer{checkout: checkout, dir: t.TempDir()}
	require.NoError(t, p.compile(ctx, tag, "", "sigs.k8s.io/kind", "./integration/registry/serve", "./hack/images"))
	wrapper := fmt.Sprintf("#!/bin/sh\n[ \"$1 $2\" != 'create cluster' ] || "+
		"set -- \"$@\" --image %s --config %s --wait 3m\nexec %s \"$@\"\n", m.nodeImage, config, p.program(tag, "kind"))
	require.NoError(t, os.WriteFile(filepath.Join(programs, "kind"), []byte(wrapper), 0o700))
	helm := exec.CommandContext(ctx, "go", "tool", "-modfile=hack/helm/go.mod", "-n", "helm")
	helm.Dir = checkout
	at, err := run(ctx, helm)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(at, filepath.Join(programs, "helm")))
	provideRegistry(t, p, programs)
}

// provideRegistry provides the image registry:3 in Docker. If this machine cannot pull the image, it builds one with
// distribution.
func provideRegistry(t *testing.T, p packer, programs string) {
	t.Helper()
	ctx := t.Context()
	const image = "registry:3"
	if _, err := docker(ctx, "image", "inspect", image); err == nil {
		return
	}
	if _, err := docker(ctx, "pull", "--quiet", image); err == nil {
		return
	}
	require.NoError(t, os.Rename(p.program(tag, "serve"), p.program(tag, "registry")))
	require.NoError(t, p.pack(ctx, repository, tag, p.program(tag, "registry")))
	file := filepath.Join(programs, "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(registryConfig+"http: {addr: \":5000\"}\n"), 0o644))
	container, err := docker(ctx, "create", "--user", "0:0", registryImage+":"+tag, "/config.yaml")
	require.NoError(t, err)
	_, err = docker(ctx, "cp", file, container+":/config.yaml")
	require.NoError(t, err)
	_, err = docker(ctx, "commit", container, image)
	require.NoError(t, err)
	_, err = docker(ctx, "rm", container)
	require.NoError(t, err)
}

// waiting is a shell function that repeats a command until it prints the expected text.
const waiting = `
until_shows() {
  for i in $(seq 120); do
    if output=$($2 2>&1) && grep -qE "$1" <<<"$output"; then echo "$output"; return; fi
    sleep 5
  done
  echo "FAILED: $2 does not show $1:"; echo "$output"; exit 1
}
`

// tutorialWaits lists commands that wait or repeat a step, as the tutorial's text asks the reader to do. The field
// block is part of the shell block that precedes the commands.
var tutorialWaits = []struct{ block, commands string }{
	{"config use-context kind-kcp", "until_shows '2 healthy' 'kcp-publisher status'"},
	{"offer 1.1.0", "until_shows 'regular-1 .*Waiting' 'kcp-publisher rollout list'"},
	{"offer 1.2.0", "until_shows ' (Behind|Failing) ' 'kcp-publisher status'\n" +
		"RUNTIME=$(kcp-publisher status | awk '$2 == \"Behind\" || $2 == \"Failing\" {print $1; exit}')\n" +
		"until_shows ErrImagePull \"kcp-publisher logs $RUNTIME --location localhost:5001/fleet\""},
	{"kcp-publisher logs RUNTIME", "until_shows 'regular-2 .*RolledBack' 'kcp-publisher rollout list'"},
	{"offer 1.2.1", "until_shows 'regular-3 .*Waiting' 'kcp-publisher rollout list'\n" +
		"kcp-publisher rollout approve greeter-regular-3 all\n" +
		"kcp-publisher rollout show greeter-regular-3 --watch\n" +
		"until_shows '2 healthy' 'kcp-publisher status'"},
}

var tutorialVersion = regexp.MustCompile(`(?m)^VERSION=\S+`)

// tutorialScript returns a script with the tutorial's commands for the given release version, and with the commands in
// tutorialWaits.
func tutorialScript(t *testing.T, blocks []guides.Block, version string) string {
	t.Helper()
	var script strings.Builder
	waits := 0
	for _, b := range blocks {
		fmt.Fprintf(&script, "echo; date '+== %%T'\n%s", strings.ReplaceAll(b.Script, " RUNTIME", " $RUNTIME"))
		for _, w := range tutorialWaits {
			if strings.Contains(b.Script, w.block) {
				script.WriteString(w.commands + "\n")
				waits++
			}
		}
	}
	require.Len(t, tutorialWaits, waits, "each wait belongs to one block of the tutorial")
	require.Len(t, tutorialVersion.FindAllString(script.String(), -1), 1, "lines of the tutorial with the version")
	return tutorialVersion.ReplaceAllString(script.String(), "VERSION="+version)
}

// The release workflow runs the tutorial with the version of the new release.
func TestTutorialInstallsTheReleasedVersion(t *testing.T) {
	blocks, err := guides.Read(filepath.Join("..", "..", "docs", "tutorials", "first-clusters.md"))
	require.NoError(t, err)
	script := tutorialScript(t, blocks, "0.3.0-rc.1")
	require.Contains(t, script, "\nVERSION=0.3.0-rc.1 PLATFORM=linux_amd64\n")
	require.NotContains(t, script, "0.2.0", "the script uses another version")
}
