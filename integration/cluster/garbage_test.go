package cluster

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestMeasuredProgramUsesGoDefaults(t *testing.T) {
	env, err := exec.LookPath("env")
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		what, set string
		measured  bool
		want      []string
	}{
		{"program that is not measured", "", false, []string{"GOGC=400", "GOMAXPROCS=1"}},
		{"program that is not measured, GOGC and GOMAXPROCS set", "50", false, []string{"GOGC=50", "GOMAXPROCS=50"}},
		{"measured program", "", true, []string{"GOGC=", "GOMAXPROCS="}},
		{"measured program, GOGC and GOMAXPROCS set", "50", true, []string{"GOGC=50", "GOMAXPROCS=50"}},
	} {
		t.Setenv("GOGC", c.set)
		t.Setenv("GOMAXPROCS", c.set)
		watched, err := (&reaper{dir: t.TempDir()}).wrapProgram(env, c.measured)
		if err != nil {
			t.Fatal(err)
		}
		output, err := exec.CommandContext(t.Context(), watched).Output()
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(strings.Fields(string(output)), func(line string) bool {
			return !strings.HasPrefix(line, "GOGC=") && !strings.HasPrefix(line, "GOMAXPROCS=")
		})
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s has %v, want %v", c.what, got, c.want)
		}
	}
}

func TestGOGCIs400UnlessSet(t *testing.T) {
	t.Setenv("GOGC", "")
	if got := GOGCSetting(); !slices.Equal(got, []string{"GOGC=400"}) {
		t.Errorf("without GOGC: %v", got)
	}
	t.Setenv("GOGC", "50")
	if got := GOGCSetting(); got != nil {
		t.Errorf("with GOGC=50: %v", got)
	}
}
