package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestColorsAreForTerminals(t *testing.T) {
	for name, c := range map[string]struct {
		mode     string
		terminal bool
		env      map[string]string
		want     bool
	}{
		"a terminal":                      {"auto", true, nil, true},
		"a pipe":                          {"auto", false, nil, false},
		"a terminal of who wants none":    {"auto", true, map[string]string{"NO_COLOR": "1"}, false},
		"a terminal that knows none":      {"auto", true, map[string]string{"TERM": "dumb"}, false},
		"a pipe, asked for by a flag":     {"always", false, map[string]string{"NO_COLOR": "1"}, true},
		"a terminal, refused by a flag":   {"never", true, nil, false},
		"an empty NO_COLOR means nothing": {"auto", true, map[string]string{"NO_COLOR": ""}, true},
	} {
		if got, err := colored(c.mode, c.terminal, func(name string) string { return c.env[name] }); got != c.want ||
			err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if code, out := execute(program(nil), nil, "run", "--color", "green"); code != ExitUsage ||
		!strings.Contains(out, `--color "green": want auto, always or never`) {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestOnlyTheProgramsOwnColorsReachATerminal prints text of a runtime beside a colored word.
func TestOnlyTheProgramsOwnColorsReachATerminal(t *testing.T) {
	for mode, want := range map[string]string{"always": "\x1b[31mFailing\x1b[0m: ", "never": "Failing: ",
		"auto": "Failing: "} {
		root, _ := NewRoot("program", "is tested", "v0")
		root.AddCommand(&cobra.Command{Use: "show", RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s: %s", PaletteOf(out).Paint(Red, "Failing"), hostile)
			return nil
		}})
		var out bytes.Buffer
		if code := Execute(root, nil, []string{"show", "--color", mode}, &out, &out); code != ExitDone {
			t.Errorf("%s: exit code %d", mode, code)
		}
		rest, found := strings.CutPrefix(out.String(), want)
		if clean(t, mode, rest); !found {
			t.Errorf("%s: got %q", mode, out.String())
		}
	}
}

func TestOutputWithoutATerminalHasADefaultWidth(t *testing.T) {
	if width := Width(&printed{out: &bytes.Buffer{}}); width != 80 {
		t.Errorf("got %d", width)
	}
}
