package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	publishcommand "github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/publish"
)

func TestConfigFileSetsUnsetFlags(t *testing.T) {
	dir := keyFolder(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	for name, c := range map[string]struct {
		config string
		args   []string
		code   int
		want   string
	}{
		"An unset flag is read from the file": {
			"keys: " + dir + "\noutput: json\n", nil, cli.ExitDone, `"version": 1`,
		},
		"The command line takes precedence over the file": {
			"keys: " + dir + "\noutput: json\n", []string{"-o", "yaml"}, cli.ExitDone, "version: 1\n",
		},
		"An invalid value in the file is refused": {
			"keys: " + dir + "\noutput: xml\n", nil, cli.ExitUsage, `-o "xml"`,
		},
		"The file can set a global flag": {
			"keys: " + dir + "\nlog-level: debug\n", nil, cli.ExitDone, "PUBLISHER KEYS",
		},
		"An unknown flag is refused": {
			"kyes: x\n", nil, cli.ExitUsage, `"kyes" is not a flag or setting of this command`,
		},
		"The file cannot name another file": {
			"config: other.yaml\n", nil, cli.ExitUsage, `"config" is not a flag or setting of this command`,
		},
		"A duplicate name is refused": {
			"output: json\noutput: yaml\n", nil, cli.ExitUsage, "already set",
		},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, config, c.config)
			o := run(append([]string{"keys", "show", "--config", config}, c.args...)...)
			if o.code != c.code || !strings.Contains(o.out+o.err, c.want) {
				t.Errorf("got %+v\nwant exit code %d with %q", o, c.code, c.want)
			}
		})
	}
	t.Run("A list sets a repeatable flag, and a number sets a numeric flag", func(t *testing.T) {
		write(t, config,
			"components: [registry.example/one, registry.example/two]\nconcurrency: 3\nvalidity: 48h\nplain-http: "+
				"true\n")
		root, g := cli.NewRoot("kcp-publisher", "", "v0.0.0-test")
		cmd := publishcommand.New(g)
		cmd.RunE = func(*cobra.Command, []string) error { return nil }
		root.AddCommand(cmd)
		root.SetArgs([]string{"publish", "--config", config})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		for flag, want := range map[string]string{
			"components": "[registry.example/one,registry.example/two]", "concurrency": "3", "validity": "48h0m0s",
			"plain-http": "true",
		} {
			if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
				t.Errorf("--%s is %s, want %s", flag, got, want)
			}
		}
	})
	t.Run("The error for an invalid value names the flag and the file", func(t *testing.T) {
		write(t, config, "validity: soon\n")
		if o := run("publish", "--config", config); o.code != cli.ExitUsage ||
			!strings.Contains(o.err, "--config "+config+": validity: ") {
			t.Errorf("got %+v, want a usage error", o)
		}
	})
}
