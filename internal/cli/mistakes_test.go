package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestErrorNamesMissingFlags(t *testing.T) {
	for name, c := range map[string]struct {
		isSet [3]bool
		want  string
	}{
		"all flags set":       {[3]bool{true, true, true}, ""},
		"one flag missing":    {[3]bool{true, false, true}, "--to is required"},
		"two flags missing":   {[3]bool{false, true, false}, "--from and -o are required"},
		"three flags missing": {[3]bool{}, "--from, --to and -o are required"},
	} {
		t.Run(name, func(t *testing.T) {
			err := RequireFlags(Required{"--from", c.isSet[0]}, Required{"--to", c.isSet[1]},
				Required{"-o", c.isSet[2]})
			if err == nil && c.want != "" || err != nil && (err.Error() != c.want || !IsUsage(err)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestErrorForMisplacedArgumentSuggestsFlag(t *testing.T) {
	program := func() *cobra.Command {
		root, _ := NewRoot("program", "is tested", "v0.0.0-test")
		run := &cobra.Command{
			Use:  "run",
			Args: Exactly(0, "no arguments"),
			RunE: func(*cobra.Command, []string) error { return nil },
		}
		run.Flags().String("from", "", "")
		run.Flags().String("as", "", "")
		root.AddCommand(run)
		return root
	}
	for args, want := range map[string]string{
		"run docs/example": "expected no arguments: use --from docs/example\n",
		"run a b":          "expected no arguments, got 2 arguments\n",
		"run --all":        "unknown flag: --all\n",
		"run --form x":     "unknown flag: --form: did you mean --from?\n",
	} {
		if code, out := execute(program(), nil, strings.Fields(args)...); code != ExitUsage ||
			!strings.Contains(out, want) {
			t.Errorf("%s: got exit code %d and output %s, want exit code %d and %q", args, code, out, ExitUsage, want)
		}
	}
}
