package command

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func allocated(t *testing.T, runtimes int) uint64 {
	t.Helper()
	dir := t.TempDir()
	from := filepath.Join(dir, "fleet")
	if err := os.CopyFS(from, os.DirFS("../../../docs/example")); err != nil {
		t.Fatal(err)
	}
	berlin, err := os.ReadFile(filepath.Join(from, "kyma-berlin.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range runtimes {
		name := fmt.Sprintf("runtime-%d", i)
		if err := os.WriteFile(filepath.Join(from, name+".yaml"),
			[]byte(strings.ReplaceAll(string(berlin), "berlin", name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys := keyFolder(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 2 {
		mustRun(t, "publish", "--from", from, "--to", "oci-layout:"+filepath.Join(dir, "layout"), "--keys", keys)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// With quadratic growth, four times as many runtimes would allocate sixteen times as much.
func TestPublishAllocationsGrowLinearly(t *testing.T) {
	allocated(t, 1)
	small, large := allocated(t, 50), allocated(t, 200)
	t.Logf("%d KiB for 50 runtimes, %d KiB for 200", small>>10, large>>10)
	if large > 6*small {
		t.Errorf("got %d bytes for 50 runtimes and %d bytes for 200, want at most six times as many", small, large)
	}
}
