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

func TestCommandLineErrorsNameTheMistake(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code int
		want string
	}{
		"no command":               {"", cli.ExitDone, "skr-agent"},
		"unknown command":          {"fly", cli.ExitUsage, `unknown command "fly"`},
		"too many arguments":       {"run here", cli.ExitUsage, "expected no arguments, got 1 argument\n"},
		"verify without reference": {"verify", cli.ExitUsage, "expected one reference, got 0 arguments"},
		"command of the publisher": {
			"publish", cli.ExitUsage, "unknown command \"publish\": run `kcp-publisher publish`",
		},
		"import without file": {"import", cli.ExitUsage, "expected at least one file"},
		"unknown log level": {
			"run --log-level loud", cli.ExitUsage, `--log-level "loud": must be trace, debug, info or error`,
		},
		"API server query rate of zero": {
			"run --set kube-api-qps=0", cli.ExitUsage, "kube-api-qps 0: must be more than 0",
		},
		"poll interval of zero": {
			"run --poll-interval 0s", cli.ExitUsage, "--poll-interval 0s: must be more than 0",
		},
		"report interval of zero": {
			"run --report-interval=0s", cli.ExitUsage, "--report-interval 0s: must be more than 0",
		},
		"registry CA file does not exist": {
			"verify h.example/x --runtime one --trust /nowhere --registry-ca /nowhere", cli.ExitUsage,
			"--registry-ca: open /nowhere",
		},
		"location with a scheme": {"import x --to https://host/path", cli.ExitUsage, "--to: location"},
		"object without a kind": {
			"provenance one", cli.ExitUsage, `object "one": must be KIND/NAME, such as deployment/mailer`,
		},
		"provenance without an object": {
			"provenance", cli.ExitUsage, "expected one object as KIND/NAME, got 0 arguments",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code := Execute("v0.0.0-test", strings.Fields(c.args), &out, &out)
			if code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("got exit code %d with %s\nwant %d with %q", code, &out, c.code, c.want)
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
	var out bytes.Buffer
	if code := cli.Execute(root, nil, []string{"run", "--config", path}, &out, &out); code != cli.ExitDone {
		t.Fatal(out.String())
	}
	for flag, want := range map[string]string{"module-service-account": "[keda=keda,ns/installer]",
		"mirror": "[a.example=b.example]"} {
		if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", flag, got, want)
		}
	}
}

func TestRunCommandUsesKubeconfigFromEnvironment(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "of-the-environment")
	if err := os.WriteFile(broken, []byte("clusters: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", broken)
	var out bytes.Buffer
	if code := Execute("v0.0.0-test", []string{"run"}, &out, &out); code != cli.ExitFailed ||
		!strings.Contains(out.String(), broken) {
		t.Errorf("got exit code %d with %s, want %d with an error about %s", code, &out, cli.ExitFailed, broken)
	}
}
