package fleet

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProgramRestartsUntilStopped(t *testing.T) {
	program := printing(t, true)
	if err := Until(t.Context(), LongTimeout, "the program has run twice", func() (bool, string) {
		return strings.Count(program.Log(), "run") >= 2, program.Log()
	}); err != nil {
		t.Fatal(err)
	}
	if err := program.Stop(); err != nil {
		t.Fatal(err)
	}
	if program.Running() {
		t.Error("the program still runs after Stop")
	}
}

func TestProgramWithoutRestartIsNotRestarted(t *testing.T) {
	program := printing(t, false)
	select {
	case <-program.Exited():
	case <-time.After(LongTimeout):
		t.Fatal("the program does not end")
	}
	if runs := strings.Count(program.Log(), "run"); runs != 1 {
		t.Errorf("the program ran %d times, want 1", runs)
	}
}

// printing starts a program that prints one word and ends.
func printing(t *testing.T, restart bool) *Process {
	t.Helper()
	program, err := Command{Binary: "/bin/sh", Args: []string{"-c", "echo run"}, Log: filepath.Join(t.TempDir(), "log"),
		Restart: restart}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := program.Stop(); err != nil {
			t.Error(err)
		}
	})
	return program
}
