package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

const (
	eastAndWest = `apiVersion: v1
kind: Config
current-context: east
clusters:
- {name: east, cluster: {server: https://east.example}}
- {name: west, cluster: {server: https://west.example}}
users:
- {name: admin, user: {token: of-admin}}
- {name: viewer, user: {token: of-viewer}}
contexts:
- {name: east, context: {cluster: east, user: admin, namespace: elsewhere}}
- {name: west, context: {cluster: west, user: viewer}}
`
	north = `apiVersion: v1
kind: Config
current-context: north
clusters:
- {name: north, cluster: {server: https://north.example}}
users:
- {name: northerner, user: {token: of-northerner}}
contexts:
- {name: north, context: {cluster: north, user: northerner}}
`
)

func TestCommandsConnectLikeKubectl(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	two, other := file("two", eastAndWest), file("other", north)
	noContexts := file("no-contexts", "apiVersion: v1\nkind: Config\n")
	withoutCurrent := file("no-current", strings.Replace(eastAndWest, "current-context: east\n", "", 1))
	both := two + string(os.PathListSeparator) + other
	for name, c := range map[string]struct {
		kubeconfig  string // $KUBECONFIG
		args        string
		host, token string
		wrong       string
	}{
		"current context of $KUBECONFIG": {kubeconfig: two, host: "https://east.example", token: "of-admin"},
		"other context of $KUBECONFIG": {
			kubeconfig: two, args: "--context west", host: "https://west.example", token: "of-viewer",
		},
		"context of the second file": {
			kubeconfig: both, args: "--context north", host: "https://north.example", token: "of-northerner",
		},
		"--kubeconfig overrides $KUBECONFIG": {
			kubeconfig: two, args: "--kubeconfig " + other, host: "https://north.example", token: "of-northerner",
		},
		"cluster and user of $KUBECONFIG": {
			kubeconfig: two, args: "--cluster west --user admin", host: "https://west.example", token: "of-admin",
		},
		"--token overrides the user's token": {
			kubeconfig: two, args: "--token mine", host: "https://east.example", token: "mine",
		},
		"--server overrides the cluster's server": {
			kubeconfig: two, args: "--server https://south.example", host: "https://south.example", token: "of-admin",
		},
		"unknown context": {kubeconfig: two, args: "--context wset", wrong: `"wset" does not exist: did you mean west?`},
		"context without a similar name": {
			kubeconfig: two, args: "--context prod", wrong: `"prod" does not exist: the contexts are `,
		},
		"missing kubeconfig": {args: "--kubeconfig /nowhere", wrong: "/nowhere"},
		"kubeconfig without contexts": {
			args: "--kubeconfig " + noContexts,
			wrong: "--kubeconfig " + noContexts + ": the file does not contain contexts: use a kubeconfig for the control " +
				"plane",
		},
		"kubeconfig without a current context": {
			args:  "--kubeconfig " + withoutCurrent,
			wrong: "no current context: set --context to one of its contexts: east, west",
		},
		"context of a kubeconfig without a current context": {
			args: "--kubeconfig " + withoutCurrent + " --context west", host: "https://west.example", token: "of-viewer",
		},
		"no kubeconfig": {
			kubeconfig: filepath.Join(dir, "none"),
			wrong: "no kubeconfig for the control plane in $KUBECONFIG: " + filepath.Join(dir, "none") +
				" does not exist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", c.kubeconfig)
			config, err := configOf(t, strings.Fields(c.args)...)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("got %v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil || config.Host != c.host || config.BearerToken != c.token {
				t.Errorf("got %+v, error %v, want host %s and token %s", config, err, c.host, c.token)
			}
		})
	}
}

func TestImpersonationAndTimeoutFlagsConfigureTheClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(north), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := configOf(t, "--kubeconfig", path, "--as", "jane", "--as-group", "a", "--as-group", "b",
		"--request-timeout", "30s")
	if err != nil || config.Impersonate.UserName != "jane" ||
		!slices.Equal(config.Impersonate.Groups, []string{"a", "b"}) ||
		config.Timeout != 30*time.Second {
		t.Errorf("got %+v, error %v, want the values of the flags", config, err)
	}
}

func TestConnectionFlagsAreNamedInErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(north), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"--request-timeout=five":          "--request-timeout \"five\": must be a duration such as 30s",
		"--certificate-authority=" + path: "--certificate-authority " + path + ": must be a PEM file",
	} {
		_, err := configOf(t, "--kubeconfig", path, flag)
		if !IsUsage(err) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", flag, err, want)
		}
	}
}

func configOf(t *testing.T, args ...string) (*rest.Config, error) {
	t.Helper()
	var c Cluster
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(flags, "the control plane")
	c.AddTimeoutFlag(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c.Config()
}
