package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func emptyProgram() *cobra.Command {
	root, _ := NewRoot("program", "is tested", "v0.0.0-test")
	suspend := &cobra.Command{Use: "suspend", RunE: func(*cobra.Command, []string) error { return nil }}
	suspend.Flags().String("namespace", "kcp-system", "")
	suspend.Flags().String("context", "", "")
	suspend.Flags().StringSlice("health", nil, "")
	suspend.Flags().StringArray("runtime", nil, "")
	RequireValues(suspend.Flags(), "namespace", "health", "runtime")
	release := &cobra.Command{Use: "release", RunE: func(*cobra.Command, []string) error { return nil }}
	AllowEmptyArguments(release)
	root.AddCommand(suspend, release)
	return root
}

func TestEmptyValuesAndArgumentsAreRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"suspend", "--namespace", ""}, "--namespace: the value is empty: set a value or remove the flag"},
		{[]string{"suspend", "--health", ""}, "--health: the value is empty: set a value or remove the flag"},
		{[]string{"suspend", "--health", ","}, "--health: the value is empty"},
		{[]string{"suspend", "--runtime", ""}, "--runtime: the value is empty"},
		{[]string{"suspend", "--health", "Failing", "--runtime", "berlin"}, ""},
		{[]string{"suspend", "berlin", ""}, "argument 2 is empty"},
		{[]string{"suspend", "berlin"}, ""},
		{[]string{"suspend", "--context", ""}, ""},
		{[]string{"release", ""}, ""},
		{[]string{cobra.ShellCompNoDescRequestCmd, "suspend", ""}, ""},
	} {
		code, out := execute(emptyProgram(), nil, c.args...)
		if c.want == "" && code != ExitDone || c.want != "" && (code != ExitUsage || !strings.Contains(out, c.want)) {
			t.Errorf("%q: got exit code %d and output %s, want %q", c.args, code, out, c.want)
		}
	}
}
