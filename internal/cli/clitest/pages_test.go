package clitest

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

func TestInvalidCommandLinesAreFound(t *testing.T) {
	newProgram := func() *cobra.Command {
		root, show := &cobra.Command{Use: "program"}, &cobra.Command{
			Use: "show NAME", Args: cobra.ExactArgs(1), Run: func(*cobra.Command, []string) {},
		}
		show.Flags().Duration("wait", 0, "how long")
		show.Flags().String("keys", "", "where")
		_ = show.MarkFlagRequired("keys") // fails only for an unknown flag
		group := &cobra.Command{Use: "group"}
		group.AddCommand(show)
		root.AddCommand(group)
		return root
	}
	for line, taken := range map[string]bool{
		"group show berlin --keys keys --wait 5m": true,
		"group show --help":                       true,
		"group show berlin":                       false,
		"group show berlin --keys":                false,
		"group show --keys keys":                  false,
		"group show berlin --keys k --wait five":  false,
		"group show berlin --keys k --until 5m":   false,
		"group hide berlin":                       false,
		"groups show berlin":                      false,
		"group":                                   false,
	} {
		if err := parseLine(newProgram(), (Block{Script: line}).Calls(t)[0]); (err == nil) != taken {
			t.Errorf("%s: got error %v, want valid: %t", line, err, taken)
		}
	}
}

func TestCommandsInCodeBlockAreFound(t *testing.T) {
	for script, want := range map[string][]string{
		"a b | c --d='e f'   # why\n":                      {"a", "b", "c", "--d=e f"},
		"a \\\n  b && c > d":                               {"a", "b", "c"},
		"for n in 1 2; do a $n $(c d) \"n-$n\"; done\n":    {"a", "x", "x", "n-x", "c", "d"},
		"$ a b\noutput (of the command)\n$ c\n":            {"a", "b", "c"},
		"old=$(a b)\nc <<'END'\nd e\nEND\nf() { g; }; f 1": {"a", "b", "c", "g", "f", "1"},
	} {
		if got := slices.Concat((Block{Script: script}).Calls(t)...); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", script, got, want)
		}
	}
}
