package command

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// work returns how many bytes and how much of the processor it takes to publish a folder with so many runtimes into a layout, for the first time and
// again.
func work(t *testing.T, runtimes int) (allocated uint64, processor time.Duration) {
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
		if err := os.WriteFile(filepath.Join(from, name+".yaml"), []byte(strings.ReplaceAll(string(berlin), "berlin", name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys := keyFolder(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := spent(t)
	for range 2 {
		done(t, "publish", "--from", from, "--to", "oci-layout:"+filepath.Join(dir, "layout"), "--keys", keys)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, spent(t) - began
}

// spent is how much of the processor this process had. That others are busy does not change it, unlike the time that goes by.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Work that grows with the square of the runtimes is sixteen times as much for four times as many.
func TestPublishingAFolderTakesNoMoreForEachRuntimeOfALargerFleet(t *testing.T) {
	work(t, 1) // what is made once
	small, smallProcessor := work(t, 250)
	large, largeProcessor := work(t, 1000)
	t.Logf("%d KiB and %s of the processor for 250 runtimes, %d KiB and %s for 1,000", small>>10, smallProcessor, large>>10, largeProcessor)
	if large > 6*small {
		t.Errorf("%d bytes for 250 runtimes, and %d for 1,000", small, large)
	}
	if largeProcessor > 8*smallProcessor {
		t.Errorf("%s of the processor for 250 runtimes, and %s for 1,000", smallProcessor, largeProcessor)
	}
}
