package flagset

import (
	"os"
	"testing"
)

func TestProgramIsItsOwnRendererByDefault(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"": self, "none": "", "/bin/sh": "/bin/sh"} {
		f := RenderingFlags{renderer: flag}
		if got, err := f.Program(); err != nil || got != want {
			t.Errorf("--renderer %q: got program %q, %v, want %q", flag, got, err, want)
		}
	}
}
