package chaos

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// envClocks is the environment variable with the path of a folder. For each program from ShiftablePrograms, the folder
// contains a file with the program's clock shift in seconds.
const envClocks = "CHAOS_CLOCKS"

//go:embed testdata/shift.go
var shift []byte

// ShiftablePrograms builds kcp-publisher and skr-agent in dir with a changed time.Now, so that tests can shift the
// running programs' wall clock. Fleets that start later run these programs. The build takes minutes.
//
// The monotonic clock does not change, as when a real machine's clock is set.
func ShiftablePrograms(ctx context.Context, dir string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("shift clocks of programs: %w: requires /proc of Linux", errors.ErrUnsupported)
	}
	programs, clocks := filepath.Join(dir, "programs"), filepath.Join(dir, "clocks")
	if err := errors.Join(os.MkdirAll(programs, 0o755), os.MkdirAll(clocks, 0o755)); err != nil {
		return err
	}
	overlay, err := writeOverlay(ctx, dir)
	if err != nil {
		return err
	}
	module, err := goEnv(ctx, "GOMOD")
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", programs+"/",
		"./kcp-publisher", "./skr-agent")
	build.Dir, build.Env = filepath.Dir(module), append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build programs whose clocks can be shifted: %w\n%s", err, output)
	}
	return errors.Join(os.Setenv(fleet.EnvPrograms, programs), os.Setenv(envClocks, clocks))
}

func goEnv(ctx context.Context, name string) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", name).Output()
	if err != nil {
		return "", fmt.Errorf("go env %s: %w", name, err)
	}
	return string(bytes.TrimSpace(output)), nil
}

// writeOverlay writes an overlay for `go build -overlay` that adds the clock shift to Go's time package.
func writeOverlay(ctx context.Context, dir string) (path string, err error) {
	root, err := goEnv(ctx, "GOROOT")
	if err != nil {
		return "", err
	}
	now := filepath.Join(root, "src/time/time.go")
	original, err := os.ReadFile(now)
	if err != nil {
		return "", err
	}
	const before, after = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {",
		"\tsec, nsec, mono := runtimeNow()\n\tsec += chaosShift.Load()\n\tif mono == 0 {"
	if bytes.Count(original, []byte(before)) != 1 {
		return "", fmt.Errorf("integration/chaos/clocks.go does not support time.Now of this Go version in %s: "+
			"update clocks.go", now)
	}
	replaced := map[string][]byte{
		filepath.Join(dir, "time.go"):  bytes.Replace(original, []byte(before), []byte(after), 1),
		filepath.Join(dir, "shift.go"): shift,
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		now: filepath.Join(dir, "time.go"),
		filepath.Join(root, "src/time/chaos_shift.go"): filepath.Join(dir, "shift.go"),
	}})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	replaced[path] = overlay
	for file, data := range replaced {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return "", err
		}
	}
	return path, nil
}

// setClock shifts a program's clock. The shift remains after a restart.
func (p *program) setClock(by time.Duration) error {
	return os.WriteFile(filepath.Join(os.Getenv(envClocks), p.metrics), fmt.Append(nil, int64(by/time.Second)), 0o644)
}
