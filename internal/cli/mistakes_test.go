package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
		run.Flags().Bool("yes", false, "")
		run.Flags().Duration("wait", 0, "")
		root.AddCommand(run)
		return root
	}
	for args, want := range map[string]string{
		"run docs/example": "expected no arguments: use --from docs/example\n",
		"run berlin":       "expected no arguments, got 1 argument\n",
		"run a b":          "expected no arguments, got 2 arguments\n",
		"run --all":        "unknown flag: --all\n",
		"run --form x":     "unknown flag: --form: did you mean --from?\n",
		"run --keys x":     "unknown flag: --keys\n",
		"run --wait 1d":    "--wait \"1d\": must be a duration such as 30s, 5m or 24h\n",
	} {
		if code, out := execute(program(), nil, strings.Fields(args)...); code != ExitUsage ||
			!strings.Contains(out, want) {
			t.Errorf("%s: got exit code %d and output %s, want exit code %d and %q", args, code, out, ExitUsage, want)
		}
	}
}

// TestProgramCommandListMatchesReferencePages compares programCommands with the reference pages, which are generated.
func TestProgramCommandListMatchesReferencePages(t *testing.T) {
	pages := map[string][]string{}
	for program := range programCommands {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "cli", program+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^## `+program+` ([a-z-]+)$`).FindAllSubmatch(page, -1) {
			pages[program] = append(pages[program], string(match[1]))
		}
	}
	for program, other := range map[string]string{"kcp-publisher": "skr-agent", "skr-agent": "kcp-publisher"} {
		var want []string
		for _, name := range pages[program] {
			if !slices.Contains(pages[other], name) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		if got := programCommands[program]; !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("commands that only %s has: got %q, want %q", program, got, want)
		}
	}
}
