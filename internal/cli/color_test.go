package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestOutputToTerminalsIsColored(t *testing.T) {
	for name, c := range map[string]struct {
		mode     string
		terminal bool
		env      map[string]string
		want     bool
	}{
		"terminal":                        {"auto", true, nil, true},
		"pipe":                            {"auto", false, nil, false},
		"terminal with NO_COLOR":          {"auto", true, map[string]string{"NO_COLOR": "1"}, false},
		"terminal without color support":  {"auto", true, map[string]string{"TERM": "dumb"}, false},
		"pipe with --color always":        {"always", false, map[string]string{"NO_COLOR": "1"}, true},
		"terminal with --color never":     {"never", true, nil, false},
		"terminal with an empty NO_COLOR": {"auto", true, map[string]string{"NO_COLOR": ""}, true},
	} {
		if got, err := isColored(c.mode, c.terminal, func(name string) string { return c.env[name] }); got != c.want ||
			err != nil {
			t.Errorf("%s: got %t, error %v, want %t", name, got, err, c.want)
		}
	}
	if code, out := execute(program(nil), nil, "run", "--color", "green"); code != ExitUsage ||
		!strings.Contains(out, `--color "green": must be auto, always or never`) {
		t.Errorf("got exit code %d: %s, want exit code %d", code, out, ExitUsage)
	}
}

func TestColorSequencesFromRuntimesAreNotPrinted(t *testing.T) {
	for mode, want := range map[string]string{"always": "\x1b[31mFailing\x1b[0m: ", "never": "Failing: ",
		"auto": "Failing: "} {
		root, _ := NewRoot("program", "is tested", "v0")
		root.AddCommand(&cobra.Command{Use: "show", RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s: %s", NewPalette(out).Paint(Red, "Failing"), hostile)
			return nil
		}})
		var out bytes.Buffer
		if code := Execute(root, nil, []string{"show", "--color", mode}, &out, &out); code != ExitDone {
			t.Errorf("--color %s: got exit code %d, want %d", mode, code, ExitDone)
		}
		rest, found := strings.CutPrefix(out.String(), want)
		if clean(t, mode, rest); !found {
			t.Errorf("--color %s: got %q, want the prefix %q", mode, out.String(), want)
		}
	}
}

func TestOutputWithoutTerminalHasDefaultWidth(t *testing.T) {
	if width := Width(&escapingWriter{out: &bytes.Buffer{}}); width != 80 {
		t.Errorf("got %d columns, want 80", width)
	}
}

func TestForgedColorSequencesAreEscaped(t *testing.T) {
	root, _ := NewRoot("program", "is tested", "v0")
	root.AddCommand(&cobra.Command{Use: "show", RunE: func(cmd *cobra.Command, _ []string) error {
		out := cmd.OutOrStdout()
		Printf(out, "%s: %s\n", NewPalette(out).Paint(Red, "Error"),
			"\x1b[32mReady\x1b[0m \x1b[32;1mReady\n\tprogram: \x1b[32;2147483649mall is well")
		return nil
	}})
	var out bytes.Buffer
	if code := Execute(root, nil, []string{"show", "--color", "always"}, &out, &out); code != ExitDone {
		t.Errorf("got exit code %d, want %d", code, ExitDone)
	}
	want := "\x1b[31mError\x1b[0m: \\x1b[32mReady\x1b[0m \\x1b[32;1mReady  program: \\x1b[32;2147483649mall is well\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestPrintfArgumentsCannotAddLines(t *testing.T) {
	type state string
	var out bytes.Buffer
	Printf(&out, "%s %v %s %d %v\n", "a\nb\tc", fmt.Errorf("d\r\ne"), state("f\rg"), 7, []byte(nil))
	if want := "a b c d e f g 7 []\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
