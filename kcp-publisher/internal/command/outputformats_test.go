package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestCommandWithInvalidFormatChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if o := run("keys", "init", "--keys", dir, "-o", "name"); o.code != cli.ExitUsage || o.out != "" ||
		!strings.Contains(o.err, `-o "name": must be table, json or yaml`) {
		t.Errorf("keys init with an invalid format: got %+v, want a usage error", o)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("keys init with an invalid format created %s: %v", dir, err)
	}
}

func TestAllFormatFlagsAreCheckedBeforeTheCommandRuns(t *testing.T) {
	root := newProgram("v0.0.0-test")
	var checked []string
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd != root && (cmd.PersistentPreRunE != nil || cmd.PersistentPreRun != nil) {
			t.Errorf("%s replaces the checks of the root command", cmd.CommandPath())
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			if !strings.HasPrefix(flag.Usage, "table, json") {
				return
			}
			if err := flag.Value.Set("xml"); err != nil {
				t.Fatal(err)
			}
			want := `"xml": must be ` + flag.Usage
			if err := root.PersistentPreRunE(cmd, nil); !cli.IsUsage(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s --%s xml: got error %v, want %s", cmd.CommandPath(), flag.Name, err, want)
			}
			checked = append(checked, cmd.CommandPath()+" --"+flag.Name)
		})
		for _, inner := range cmd.Commands() {
			visit(inner)
		}
	}
	visit(root)
	for _, flag := range []string{"promote --output", "status --output", "export --format"} {
		if !slices.Contains(checked, "kcp-publisher "+flag) {
			t.Errorf("the test did not find %s; it found %s", flag, checked)
		}
	}
}
