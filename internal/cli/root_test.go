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

// program returns a program with one command, which prints its flags or fails with fails.
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

func TestExitCodesTellWhoseMistakeItWas(t *testing.T) {
	own := errors.New("a signature that the policy refuses")
	for name, c := range map[string]struct {
		err  error
		args string
		code int
		want string
	}{
		"what is done":      {nil, "run", ExitDone, "mirror=[]"},
		"nothing asked for": {nil, "", ExitDone, "is tested"},
		"a group alone":     {nil, "keys", ExitDone, "holds commands"},
		"what failed":       {errors.New("no network"), "run", ExitFailed, "program: no network"},
		"a flag that is not known": {
			nil, "run --fast", ExitUsage, "unknown flag: --fast\nrun `program run --help`",
		},
		"a command that is not known": {nil, "fly", ExitUsage, `unknown command "fly"`},
		"a group's command that is not": {
			nil, "keys lose", ExitUsage, "unknown command \"lose\"\nrun `program keys --help`",
		},
		"a command by nearly its name": {nil, "rnu", ExitUsage, `unknown command "rnu": did you mean run?`},
		"one of a group, with its flags": {
			nil, "keys shwo --keys keys", ExitUsage,
			"unknown command \"shwo\": did you mean show?\nrun `program keys --help`",
		},
		"a flag by nearly its name": {
			nil, "run --mirorr a=b", ExitUsage,
			"unknown flag: --mirorr: did you mean --mirror?\nrun `program run --help`",
		},
		"a flag of a letter": {
			nil, "run -x", ExitUsage, "unknown shorthand flag: 'x' in -x\nrun `program run --help`",
		},
		"a version": {nil, "version", ExitDone, "version   v0.0.0-test\ncommit    "},
		"an argument too many": {
			nil, "run here", ExitUsage, "want no arguments, got 1 argument\nrun `program run --help`",
		},
		"completion of a shell there is not": {
			nil, "completion bsh", ExitUsage,
			"unknown command \"bsh\": did you mean bash or fish or zsh?\nrun `program completion --help`",
		},
		"completion of a shell": {nil, "completion bash", ExitDone, "# bash completion"},
		"completion alone":      {nil, "completion", ExitDone, "powershell"},
		"help of what is not": {
			nil, "help keys shwo", ExitUsage, "unknown command \"shwo\": did you mean show?\nrun `program help --help`",
		},
		"help of nothing that is known": {
			nil, "help lose", ExitUsage, "unknown command \"lose\"\nrun `program help --help`",
		},
		"help of a command":             {nil, "help run", ExitDone, "program run [flags]"},
		"help of a command with a word": {nil, "help run here", ExitDone, "program run [flags]"},
		"help alone":                    {nil, "help", ExitDone, "Available Commands:"},
		"a usage error, wrapped": {
			fmt.Errorf("run: %w", Usage(errors.New("--to is required"))), "run", ExitUsage, "run: --to is required",
		},
		"a refusal, wrapped": {
			fmt.Errorf("file: %w", &refusal.Error{Reason: refusal.Expired, Detail: "since noon"}), "run", ExitRefused,
			"since noon",
		},
		"what the program calls a refusal": {
			fmt.Errorf("component: %w", own), "run", ExitRefused, "component: a signature",
		},
		"a log level that there is not": {
			nil, "run --log-level loud", ExitUsage, `--log-level "loud": want trace, debug, info or error`,
		},
		"a log format that there is not": {
			nil, "run --log-format xml", ExitUsage, `--log-format "xml": want json or console`,
		},
		"a flag by its name in Flux": {
			nil, "run --concurrent 7 --log-encoding console", ExitDone, "concurrency=7",
		},
		"a value that is wrong, by its own": {nil, "run --concurrent many", ExitUsage, "--concurren"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := execute(program(c.err), func(err error) bool { return errors.Is(err, own) },
				strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("exit %d: %s\nwant %d with %q", code, out, c.code, c.want)
			}
		})
	}
}

func TestConfigurationHasValuesAndListsOfFlags(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		args   string
		code   int
		want   string
	}{
		"a list for a flag that may be repeated": {
			"mirror: [a=b, 'c=d,e']\n", "", ExitDone, `mirror=["a=b" "c=d,e"]`,
		},
		"one value for it": {"mirror: a=b\n", "", ExitDone, `mirror=["a=b"]`},
		"a list for a flag with commas": {
			"platform:\n- linux/amd64\n- linux/arm64\n", "", ExitDone, `platform=["linux/amd64" "linux/arm64"]`,
		},
		"a number that is large":     {"concurrency: 1000000\n", "", ExitDone, "concurrency=1000000"},
		"a flag by its name in Flux": {"concurrent: 9\n", "", ExitDone, "concurrency=9"},
		"a flag on the command line wins": {
			"mirror: [a=b]\nconcurrency: 9\n", "--mirror x=y --concurrency 5", ExitDone,
			`mirror=["x=y"] platform=[] name="" concurrency=5`,
		},
		"a flag under both of its names": {
			"concurrency: 4\nconcurrent: 16\n", "", ExitUsage, "--concurrency is set under two names",
		},
		"a list for a flag that is not repeatable": {
			"name: [a, b]\n", "", ExitUsage, "name: want one value, not a list",
		},
		"a dictionary": {
			"name: {a: b}\n", "", ExitUsage, "name: want a string, number or boolean",
		},
		"a dictionary in a list": {
			"mirror: [{a: b}]\n", "", ExitUsage, "mirror: want a string, number or boolean",
		},
		"nothing": {
			"name:\n", "", ExitUsage, "name: want a string, number or boolean",
		},
		"an unknown flag": {
			"unknown: x\n", "", ExitUsage, `"unknown" is not a flag of this command`,
		},
		"another file": {
			"config: x\n", "", ExitUsage, `"config" is not a flag of this command`,
		},
		"a bad log level, in the file as elsewhere": {"log-level: loud\n", "", ExitUsage, `--log-level "loud"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out := execute(program(nil), nil,
				append([]string{"run", "--config", path}, strings.Fields(c.args)...)...)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("exit %d: %s\nwant %d with %q", code, out, c.code, c.want)
			}
		})
	}
}
