package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// program returns a program with one command. The command prints its flags and returns the error in fails.
func program(fails error) *cobra.Command {
	root, _ := NewRoot("program", "is tested", "v0.0.0-test")
	var lists, slices []string
	var name string
	var number int
	run := &cobra.Command{
		Use: "run", Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(cmd.OutOrStdout(), "mirror=%q platform=%q name=%q concurrency=%d", lists, slices, name, number)
			return fails
		},
	}
	run.Flags().StringArrayVar(&lists, "mirror", nil, "")
	run.Flags().StringSliceVar(&slices, "platform", nil, "")
	run.Flags().StringVar(&name, "name", "", "")
	run.Flags().IntVar(&number, "concurrency", 4, "")
	root.AddCommand(run, Group("keys", "holds commands", &cobra.Command{
		Use: "show", RunE: func(*cobra.Command, []string) error { return nil },
	}))
	return root
}

func execute(root *cobra.Command, refused func(error) bool, args ...string) (int, string) {
	var out bytes.Buffer
	code := Execute(root, refused, args, &out, &out)
	return code, out.String()
}

func TestErrorsDetermineExitCodes(t *testing.T) {
	own := errors.New("a signature that the policy refuses")
	for name, c := range map[string]struct {
		err  error
		args string
		code int
		want string
	}{
		"success":                    {nil, "run", ExitDone, "mirror=[]"},
		"no command":                 {nil, "", ExitDone, "is tested"},
		"group without a subcommand": {nil, "keys", ExitDone, "holds commands"},
		"failure":                    {errors.New("no network"), "run", ExitFailed, "program: no network"},
		"unknown flag": {
			nil, "run --fast", ExitUsage, "unknown flag: --fast\nrun `program run --help`",
		},
		"unknown command": {nil, "fly", ExitUsage, `unknown command "fly"`},
		"unknown subcommand": {
			nil, "keys lose", ExitUsage, "unknown command \"lose\"\nrun `program keys --help`",
		},
		"misspelled command": {nil, "rnu", ExitUsage, `unknown command "rnu": did you mean run?`},
		"misspelled subcommand with flags": {
			nil, "keys shwo --keys keys", ExitUsage,
			"unknown command \"shwo\": did you mean show?\nrun `program keys --help`",
		},
		"misspelled flag": {
			nil, "run --mirorr a=b", ExitUsage,
			"unknown flag: --mirorr: did you mean --mirror?\nrun `program run --help`",
		},
		"unknown shorthand flag": {
			nil, "run -x", ExitUsage, "unknown shorthand flag: 'x' in -x\nrun `program run --help`",
		},
		"version": {nil, "version", ExitDone, "version   v0.0.0-test\ncommit    "},
		"too many arguments": {
			nil, "run here", ExitUsage, "expected no arguments, got 1 argument\nrun `program run --help`",
		},
		"completion for an unknown shell": {
			nil, "completion bsh", ExitUsage,
			"unknown command \"bsh\": did you mean bash or fish or zsh?\nrun `program completion --help`",
		},
		"completion for a shell":     {nil, "completion bash", ExitDone, "# bash completion"},
		"completion without a shell": {nil, "completion", ExitDone, "powershell"},
		"help for a misspelled subcommand": {
			nil, "help keys shwo", ExitUsage, "unknown command \"shwo\": did you mean show?\nrun `program help --help`",
		},
		"help for an unknown command": {
			nil, "help lose", ExitUsage, "unknown command \"lose\"\nrun `program help --help`",
		},
		"help for a command":                  {nil, "help run", ExitDone, "program run [flags]"},
		"help for a command with an argument": {nil, "help run here", ExitDone, "program run [flags]"},
		"help without a command":              {nil, "help", ExitDone, "Available Commands:"},
		"wrapped usage error": {
			fmt.Errorf("run: %w", Usage(errors.New("--to is required"))), "run", ExitUsage, "run: --to is required",
		},
		"wrapped refusal": {
			fmt.Errorf("file: %w", &refusal.Error{Reason: refusal.Expired, Detail: "since noon"}), "run", ExitRefused,
			"since noon",
		},
		"error that the program treats as a refusal": {
			fmt.Errorf("component: %w", own), "run", ExitRefused, "component: a signature",
		},
		"unknown log level": {
			nil, "run --log-level loud", ExitUsage, `--log-level "loud": must be trace, debug, info or error`,
		},
		"unknown log format": {
			nil, "run --log-format xml", ExitUsage, `--log-format "xml": must be json or console`,
		},
		"alias of a flag": {
			nil, "run --concurrent 7 --log-encoding console", ExitDone, "concurrency=7",
		},
		"alias with an invalid value": {nil, "run --concurrent many", ExitUsage, "--concurren"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := execute(program(c.err), func(err error) bool { return errors.Is(err, own) },
				strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("got exit code %d: %s\nwant exit code %d and %q", code, out, c.code, c.want)
			}
		})
	}
}

func TestConfigurationFileSetsFlags(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		args   string
		code   int
		want   string
	}{
		"list for a repeatable flag": {
			"mirror: [a=b, 'c=d,e']\n", "", ExitDone, `mirror=["a=b" "c=d,e"]`,
		},
		"single value for a repeatable flag": {"mirror: a=b\n", "", ExitDone, `mirror=["a=b"]`},
		"list for a comma-separated flag": {
			"platform:\n- linux/amd64\n- linux/arm64\n", "", ExitDone, `platform=["linux/amd64" "linux/arm64"]`,
		},
		"large number":    {"concurrency: 1000000\n", "", ExitDone, "concurrency=1000000"},
		"alias of a flag": {"concurrent: 9\n", "", ExitDone, "concurrency=9"},
		"command line takes precedence": {
			"mirror: [a=b]\nconcurrency: 9\n", "--mirror x=y --concurrency 5", ExitDone,
			`mirror=["x=y"] platform=[] name="" concurrency=5`,
		},
		"flag and its alias": {
			"concurrency: 4\nconcurrent: 16\n", "", ExitUsage, "--concurrency is set under two names",
		},
		"list for a flag that is not repeatable": {
			"name: [a, b]\n", "", ExitUsage, "name: must be one value, not a list",
		},
		"map": {
			"name: {a: b}\n", "", ExitUsage, "name: must be a string, number or boolean",
		},
		"map in a list": {
			"mirror: [{a: b}]\n", "", ExitUsage, "mirror: must be a string, number or boolean",
		},
		"null": {
			"name:\n", "", ExitUsage, "name: must be a string, number or boolean",
		},
		"unknown flag": {
			"unknown: x\n", "", ExitUsage, `"unknown" is not a flag or setting of this command`,
		},
		"config flag in the configuration file": {
			"config: x\n", "", ExitUsage, `"config" is not a flag or setting of this command`,
		},
		"unknown log level": {"log-level: loud\n", "", ExitUsage, `--log-level "loud"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out := execute(program(nil), nil,
				append([]string{"run", "--config", path}, strings.Fields(c.args)...)...)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("got exit code %d: %s\nwant exit code %d and %q", code, out, c.code, c.want)
			}
		})
	}
}
