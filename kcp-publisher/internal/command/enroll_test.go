package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"
)

func TestSeveralRuntimesAreEnrolledIntoAFolder(t *testing.T) {
	dir, out := keyFolder(t), filepath.Join(t.TempDir(), "secrets")
	enroll := func(args ...string) []string {
		return append([]string{"enroll", "--location", "registry.example/fleet", "--keys", dir}, args...)
	}
	printed := mustRun(t, enroll("rome", "berlin", "rome", "--output-dir", out)...)
	if !strings.Contains(printed, "2 runtimes enrolled") {
		t.Errorf("got output %s, want 2 enrolled runtimes", printed)
	}
	for _, id := range []string{"rome", "berlin"} {
		path := filepath.Join(out, id+".yaml")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: got %v, %v, want mode 0600", path, info, err)
		}
		if text := read(t, path); !strings.Contains(text, "runtime: "+id+"\n") || !strings.Contains(text,
			"kyma: kcp-system/"+id+"\n") {
			t.Errorf("%s contains\n%s", path, text)
		}
	}
	expired := keyFolder(t)
	mustRun(t, "keys", "rotate", "--validity", "1ms", "--keys", expired)
	var many []string
	for c := range "abcdefghijk" {
		many = append(many, string("abcdefghijk"[c])+"-1")
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"runtime with an existing file": {
			enroll("rome", "--output-dir", out), cli.ExitFailed, "rome.yaml already exists",
		},
		"two runtimes, one with an existing file": {
			enroll("amsterdam", "rome", "--output-dir", out), cli.ExitFailed, "rome.yaml already exists",
		},
		"several runtimes to stdout": {enroll("rome", "berlin"), cli.ExitUsage, "--output-dir is required"},
		"all runtimes to stdout":     {enroll("--all"), cli.ExitUsage, "--output-dir is required"},
		"several runtimes with --kyma": {enroll("rome", "berlin", "--kyma", "one", "--output-dir", out), cli.ExitUsage,
			"require exactly one runtime ID"},
		"runtime IDs with a selector": {enroll("rome", "-l", "a=b", "--output-dir", out), cli.ExitUsage,
			"cannot be combined with --selector"},
		"many runtimes without --yes": {enroll(append(slices.Clone(many), "--output-dir", out)...), cli.ExitUsage,
			"enroll 11 runtimes: add --yes"},
		"a dry run for many runtimes": {enroll(append(slices.Clone(many), "--dry-run")...), cli.ExitDone,
			"11 runtimes selected, nothing is written"},
		"many runtimes with --yes": {enroll(append(slices.Clone(many), "--output-dir", out, "--yes")...),
			cli.ExitDone, "11 runtimes enrolled"},
		"a location with an unknown scheme": {
			[]string{"enroll", "rome", "--keys", dir, "--location", "https://registry.example/fleet"}, cli.ExitUsage,
			`--location: location "https://registry.example/fleet": only oci:// is accepted as a scheme`,
		},
		"a folder as location": {
			[]string{"enroll", "rome", "--keys", dir, "--location", "./fleet", "--dry-run"}, cli.ExitUsage,
			`--location: location "./fleet" is a folder`,
		},
		"a location with Helm's scheme and a password": {
			[]string{"enroll", "rome", "--keys", dir, "--location", "oci://registry.example/fleet", "--registry-password"},
			cli.ExitDone, `{"auths":{"registry.example":`,
		},
		"an empty UID, which would not limit the token to an object": {
			enroll("rome", "--kyma-uid", ""), cli.ExitUsage, "--kyma-uid: the value is empty",
		},
		"a UID that no API server assigns": {
			enroll("rome", "--kyma-uid", "xyz"), cli.ExitUsage, `--kyma-uid "xyz": must be the UID of the Kyma: kubectl get`,
		},
		"a location with a tag": {
			[]string{"enroll", "rome", "--keys", dir, "--location", "registry.example/fleet:v1"}, cli.ExitUsage,
			"must be HOST[:PORT]/PATH without a tag or digest, or oci-layout:PATH",
		},
		"a location with uppercase letters": {
			[]string{"enroll", "rome", "--keys", dir, "--location", "registry.example/Fleet"}, cli.ExitUsage,
			"must be HOST[:PORT]/PATH with a lowercase PATH, or oci-layout:PATH",
		},
		"a file as key folder": {
			[]string{"enroll", "rome", "--keys", filepath.Join(dir, "root.json"), "--location", "registry.example/fleet"},
			cli.ExitFailed, "not a directory: set --keys to the folder that contains root.json",
		},
		"an empty namespace, which would select all namespaces": {
			enroll("rome", "-n", ""), cli.ExitUsage, "--namespace: the value is empty",
		},
		"a certificate in a different format": {
			enroll("rome", "--registry-ca", filepath.Join(dir, "root.json")), cli.ExitUsage,
			"--registry-ca " + filepath.Join(dir, "root.json") + ": ",
		},
		"an expired token": {enroll("rome", "--token-validity", "0s"), cli.ExitUsage,
			"--token-validity 0s: must be more than 0"},
		"a negative token validity": {enroll("rome", "--token-validity", "-1h"), cli.ExitUsage,
			"--token-validity -1h0m0s: must be "},
		"a folder without keys": {
			[]string{"enroll", "rome", "--keys", out, "--location", "registry.example/fleet"}, cli.ExitFailed,
			"set --keys to the folder of the fleet's keys, or create one with",
		},
		"an expired root of trust": {
			[]string{"enroll", "rome", "--keys", expired, "--location", "registry.example/fleet"}, cli.ExitFailed,
			"expired at ",
		},
		"a path as runtime ID": {enroll("a", "../b", "--output-dir", out), cli.ExitUsage, `runtime ID "../b"`},
		"all runtimes without a kubeconfig": {enroll("--all", "--output-dir", out, "--kubeconfig", "/nowhere"),
			cli.ExitFailed, "kubeconfig"},
		"a folder that cannot be created": {enroll("c", "d", "--output-dir", filepath.Join(out, "rome.yaml", "x")),
			cli.ExitFailed, "not a directory"},
	} {
		if o := run(c.args...); o.code != c.code || !strings.Contains(o.out+o.err, c.want) {
			t.Errorf("%s: got %+v, want exit code %d with %q", name, o, c.code, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "amsterdam.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an enrollment that was refused wrote a file: %v", err)
	}
}

func TestEnrollRefusesKymasWithSameRuntimeID(t *testing.T) {
	server := controlplanetest.New(t, 4, func(i int, kyma *v1beta2.Kyma) {
		id := fmt.Sprintf("id-%d", i%3)
		kyma.Labels[v1beta2.LabelRuntimeID], kyma.Status.Runtime.ID = id, id
		kyma.Labels["twin"] = strconv.FormatBool(id == "id-0")
	})
	dir, config := keyFolder(t), server.Kubeconfig(t)
	for name, args := range map[string][]string{
		"all runtimes": {"--all"}, "a label selector": {"-l", "twin=true"}, "a dry run": {"--all", "--dry-run"},
	} {
		out := filepath.Join(t.TempDir(), "secrets")
		o := run(append([]string{"enroll", "--location", "registry.example/fleet", "--keys", dir, "--kubeconfig", config,
			"--output-dir", out}, args...)...)
		if o.code != cli.ExitFailed ||
			!strings.Contains(o.err, "Kymas kcp-system/runtime-00000 and kcp-system/runtime-00003 have") {
			t.Errorf("%s: got %+v, want an error with both Kymas", name, o)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the command wrote to %s: %v", name, out, err)
		}
	}
}
