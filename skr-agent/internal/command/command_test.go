package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestWrongCommandLinesNameTheMistake(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code int
		want string
	}{
		"nothing asked for":    {"", cli.ExitDone, "skr-agent"},
		"an unknown command":   {"fly", cli.ExitUsage, `unknown command "fly"`},
		"an argument too many": {"run here", cli.ExitUsage, "want no arguments, got 1 argument\n"},
		"verify of nothing":    {"verify", cli.ExitUsage, "want one reference, got 0 arguments"},
		"import of nothing":    {"import", cli.ExitUsage, "want at least one file"},
		"a log level that there is not": {
			"run --log-level loud", cli.ExitUsage, `--log-level "loud": want trace, debug, info or error`,
		},
		"no queries to the API server": {
			"run --kube-api-qps 0", cli.ExitUsage, "--kube-api-qps 0: want more than 0",
		},
		"a registry's certificates not there": {
			"verify h.example/x --runtime one --trust /nowhere --registry-ca /nowhere", cli.ExitUsage,
			"--registry-ca: open /nowhere",
		},
		"a location that is none":  {"import x --to https://host/path", cli.ExitUsage, "--to: location"},
		"an object without a kind": {"provenance one", cli.ExitUsage, "want one object as KIND/NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code := Execute("v0.0.0-test", strings.Fields(c.args), &out, &out)
			if code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("exit %d: %s\nwant %d with %q", code, &out, c.code, c.want)
			}
		})
	}
}

func TestConfigurationAcceptsListsForRepeatableFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path,
		[]byte("module-service-account: [keda=keda, ns/installer]\nmirror:\n- a.example=b.example\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	root, g := cli.NewRoot("skr-agent", "", "v0.0.0-test")
	cmd := newRun(g)
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	root.AddCommand(cmd)
	root.SetArgs([]string{"run", "--config", path})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"module-service-account": "[keda=keda,ns/installer]",
		"mirror": "[a.example=b.example]"} {
		if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", flag, got, want)
		}
	}
}

func TestRunTakesTheRuntimeOfTheEnvironmentsKubeconfig(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "of-the-environment")
	if err := os.WriteFile(broken, []byte("clusters: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", broken)
	var out bytes.Buffer
	if code := Execute("v0.0.0-test", []string{"run"}, &out, &out); code != cli.ExitFailed ||
		!strings.Contains(out.String(), broken) {
		t.Errorf("exit %d: %s", code, &out)
	}
}
