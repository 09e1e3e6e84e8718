package command

import (
	"bytes"
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
		var out bytes.Buffer
		if code := cli.Execute(root, nil, []string{"publish", "--config", config}, &out, &out); code != cli.ExitDone {
			t.Fatal(out.String())
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
	for name, c := range map[string]struct {
		config string
		args   []string
		code   int
		want   string
	}{
		"A required flag can be in the file": {
			"keys: " + dir + "\nlocation: registry.example/fleet\n", []string{"enroll", "rome"}, cli.ExitDone,
			"runtime: rome",
		},
		"A flag that selects runtimes can be in the file": {
			"health: Suspended\ndry-run: true\nkubeconfig: /nowhere\n", []string{"resume"}, cli.ExitFailed, "/nowhere",
		},
		"A flag in the file is checked against the arguments": {
			"keys: " + dir + "\nlocation: registry.example/fleet\nkyma: one\n",
			[]string{"enroll", "rome", "berlin", "--output-dir", filepath.Join(t.TempDir(), "secrets")}, cli.ExitUsage,
			"require exactly one runtime ID",
		},
		"An invalid value in the file is checked before the command runs": {
			"keys: " + dir + "\nlocation: registry.example/fleet\ntoken-validity: 0s\n", []string{"enroll", "rome"},
			cli.ExitUsage, "--token-validity 0s: must be more than 0",
		},
		"An empty selector in the file is refused": {
			"selector: \"\"\n", []string{"resume", "--health", "Suspended"}, cli.ExitUsage,
			"--selector: the value is empty",
		},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, config, c.config)
			o := run(append(c.args, "--config", config)...)
			if o.code != c.code || !strings.Contains(o.out+o.err, c.want) {
				t.Errorf("got %+v\nwant exit code %d with %q", o, c.code, c.want)
			}
		})
	}
	t.Run("The error for an invalid value names the flag and the file", func(t *testing.T) {
		write(t, config, "validity: soon\n")
		if o := run("publish", "--config", config); o.code != cli.ExitUsage ||
			!strings.Contains(o.err, "--config "+config+": validity: ") {
			t.Errorf("got %+v, want a usage error", o)
		}
	})
}
