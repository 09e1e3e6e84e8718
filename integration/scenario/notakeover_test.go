package scenario

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// TestProgramsWorkWithoutTakeovers builds both programs with stubs for their takeover packages, and then installs,
// upgrades and removes a module. The stubs contain only the identifiers that other packages use.
func TestProgramsWorkWithoutTakeovers(t *testing.T) {
	suite.Long(t)
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Programs: withoutTakeovers(t)})
	if output, err := f.Ask(ctx, "takeover", "status"); err == nil {
		t.Errorf("the publisher has the command takeover: %s", output)
	}
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	must(t, f.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.8.0")))
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	deleteKyma(t, f, r)
	untilForgotten(t, r, fleet.Generous)
}

// TestProgramsCompileWithoutTakeovers is the fast part of TestProgramsWorkWithoutTakeovers, which runs on every change.
func TestProgramsCompileWithoutTakeovers(t *testing.T) {
	build(t, "./kcp-publisher/internal/command", "./skr-agent/internal/command")
}

// withoutTakeovers builds the programs with stubs for the takeover packages.
func withoutTakeovers(t *testing.T) fleet.Binaries {
	t.Helper()
	dir := t.TempDir()
	build(t, "-ldflags", "-s -w", "-o", dir+"/", "./kcp-publisher", "./skr-agent")
	return fleet.Binaries{Publisher: filepath.Join(dir, "kcp-publisher"), Agent: filepath.Join(dir, "skr-agent")}
}

// build runs `go build` with stubs for the takeover packages.
func build(t *testing.T, args ...string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	stubs := filepath.Join(root, "integration", "scenario", "testdata", "notakeover")
	publisher := filepath.Join(root, "kcp-publisher", "internal", "takeover")
	agent := filepath.Join(root, "skr-agent", "internal", "takeover")
	replace := map[string]string{}
	for _, folder := range []string{publisher, agent} {
		must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(entry.Name(), ".go") {
				replace[path] = "" // an empty path removes the file from the build
			}
			return err
		}))
	}
	for path, stub := range map[string]string{
		filepath.Join(publisher, "stub.go"):            "publisher.go",
		filepath.Join(publisher, "phase", "stub.go"):   "publisher-phase.go",
		filepath.Join(publisher, "command", "stub.go"): "publisher-command.go",
		filepath.Join(agent, "stub.go"):                "agent.go",
	} {
		replace[path] = filepath.Join(stubs, stub)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	file := filepath.Join(t.TempDir(), "overlay.json")
	must(t, os.WriteFile(file, overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", file}, args...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the programs without takeovers: %v\n%s", err, output)
	}
}
