package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func programWithSettings() *cobra.Command {
	root, _ := NewRoot("program", "is tested", "v0.0.0-test")
	var hosts []string
	var interval time.Duration
	run := &cobra.Command{
		Use: "run", Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "hosts=%q interval=%s", hosts, interval)
			return err
		},
	}
	settings := Settings(run.Flags())
	settings.StringArrayVar(&hosts, "host", nil, "allowed host; can be repeated")
	settings.DurationVar(&interval, "poll-interval", time.Minute, "interval between two polls")
	root.AddCommand(run, &cobra.Command{Use: "show", RunE: func(*cobra.Command, []string) error { return nil }})
	return root
}

func TestCommandLineSettingsOverrideFileSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	for name, c := range map[string]struct {
		file string
		args string
		code int
		want string
	}{
		"default values": {"{}\n", "run", ExitDone, `hosts=[] interval=1m0s`},
		"values from --set": {
			"{}\n", "run --set poll-interval=5s --set=host=a", ExitDone, `hosts=["a"] interval=5s`,
		},
		"value that contains =":     {"{}\n", "run --set host=a=b", ExitDone, `hosts=["a=b"]`},
		"repeated --set for a list": {"{}\n", "run --set host=a --set host=b", ExitDone, `hosts=["a" "b"]`},
		"values from the file": {
			"poll-interval: 7s\nhost: [a, b]\n", "run", ExitDone, `hosts=["a" "b"] interval=7s`,
		},
		"--set with a list in a file": {"host: [a, b]\n", "run --set host=c", ExitDone, `hosts=["c"]`},
		"unknown setting": {
			"{}\n", "run --set poll-intervall=5s", ExitUsage,
			`unknown setting "poll-intervall": did you mean poll-interval?`,
		},
		"negative value in --set": {
			"{}\n", "run --set poll-interval=-5s", ExitUsage, "poll-interval -5s: must be at least 0",
		},
		"negative value in the file": {
			"poll-interval: -5s\n", "run", ExitUsage, "poll-interval -5s: must be at least 0",
		},
		"misspelled key in the file": {
			"poll-intervall: 5s\n", "run", ExitUsage,
			`"poll-intervall" is not a flag or setting of this command: did you mean poll-interval?`,
		},
		"--set without a value":  {"{}\n", "run --set host", ExitUsage, "must be KEY=VALUE"},
		"invalid value in --set": {"{}\n", "run --set poll-interval=soon", ExitUsage, `invalid duration "soon"`},
		"invalid value in the file": {
			"poll-interval: soon\n", "run", ExitUsage,
			`poll-interval: invalid value "soon": time: invalid duration "soon"`,
		},
		"--set as a key of the file": {
			"set: host=a\n", "run", ExitUsage, `"set" is not a flag or setting of this command`,
		},
		"setting as a flag": {
			"{}\n", "run --poll-interval=5s", ExitUsage,
			"use --set poll-interval=VALUE, or key poll-interval in the --config file",
		},
		"setting that only another command has": {
			"poll-interval: 5s\n", "show", ExitUsage, `"poll-interval" is not a flag or setting of this command`,
		},
		"help that lists the settings": {
			"{}\n", "run --help", ExitDone, "  poll-interval duration   interval between two polls (default 1m0s)",
		},
		"help without settings": {"{}\n", "show --help", ExitDone, "Usage:"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out := execute(programWithSettings(), nil, append(strings.Fields(c.args), "--config", path)...)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("got exit code %d with\n%s\nwant %d with %q", code, out, c.code, c.want)
			}
			if strings.Contains(c.args, "show") && strings.Contains(out, "Settings (") {
				t.Errorf("the help of a command without settings lists settings:\n%s", out)
			}
		})
	}
}

func TestCompletionListsSettings(t *testing.T) {
	_, out := execute(programWithSettings(), nil, "__complete", "run", "--set", "")
	if !strings.Contains(out, "poll-interval=\t") || !strings.Contains(out, "host=\t") {
		t.Errorf("got completions\n%s\nwant both settings", out)
	}
}
