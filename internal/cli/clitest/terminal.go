package clitest

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// Output returns a command's output with --color and the given mode.
func Output(t *testing.T, mode string, show func(io.Writer)) string {
	t.Helper()
	root, _ := cli.NewRoot("program", "is tested", "v0")
	root.AddCommand(&cobra.Command{Use: "show", RunE: func(cmd *cobra.Command, _ []string) error {
		show(cmd.OutOrStdout())
		return nil
	}})
	var out bytes.Buffer
	if code := cli.Execute(root, nil, []string{"show", "--color", mode}, &out, &out); code != cli.ExitDone {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	return out.String()
}

// CheckColors fails unless the output contains the colored strings with --color=always, and no colors with
// --color=never.
func CheckColors(t *testing.T, show func(io.Writer), wants ...string) {
	t.Helper()
	got := Output(t, "always", show)
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not contain %q", got, want)
		}
	}
	if got := Output(t, "never", show); strings.Contains(got, "\x1b") {
		t.Errorf("unwanted colors: %q", got)
	}
}

// Forged is text that adds lines and colors to the output of a command that prints it without escaping.
const Forged = "fails\n\x1b[32mforged\x1b[0m line\r\nforged\rforged"

var forgedLine = regexp.MustCompile(`^(\x1b\[\d+m|\\x1b\[32m|\s)*forged`)

// CheckForged fails if the output contains a line or a color from Forged.
func CheckForged(t *testing.T, show func(io.Writer)) {
	t.Helper()
	got := Output(t, "always", show)
	for line := range strings.Lines(got) {
		if forgedLine.MatchString(line) {
			t.Errorf("external text added the line %q", line)
		}
	}
	if strings.Contains(got, "\x1b[32mforged") {
		t.Errorf("external text is colored: %q", got)
	}
}
