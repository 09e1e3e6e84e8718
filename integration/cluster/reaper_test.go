package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The program sleeps at first, to simulate a program that starts late on a busy machine.
func TestReaperRecordsKwokProcessUntilItStops(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kwok")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := startReaper(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.dismiss(); err != nil {
			t.Error(err)
		}
	}()
	k, err := startKwok(program, r, "kubeconfig", false)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(r.pidFile("kwok"))
	if pid := strconv.Itoa(k.cmd.Process.Pid); err != nil || strings.TrimSpace(string(content)) != pid {
		t.Errorf("recorded process: %q %v, want %s", content, err, pid)
	}
	if err := k.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.pidFile("kwok")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the process is still recorded after it was stopped: %v", err)
	}
}
