package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestSeveralRuntimesAreEnrolledIntoAFolder(t *testing.T) {
	dir, out := keyFolder(t), filepath.Join(t.TempDir(), "secrets")
	enroll := func(args ...string) []string {
		return append([]string{"enroll", "--location", "registry.example/fleet", "--keys", dir}, args...)
	}
	printed := done(t, enroll("rome", "berlin", "rome", "--output-dir", out)...)
	if !strings.Contains(printed, "2 runtimes enrolled") {
		t.Errorf("printed %s", printed)
	}
	for _, id := range []string{"rome", "berlin"} {
		path := filepath.Join(out, id+".yaml")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v, %v", path, info, err)
		}
		if text := read(t, path); !strings.Contains(text, "runtime: "+id+"\n") || !strings.Contains(text,
			"kyma: kcp-system/"+id+"\n") {
			t.Errorf("%s has\n%s", path, text)
		}
	}
	var many []string
	for c := range "abcdefghijk" {
		many = append(many, string("abcdefghijk"[c])+"-1")
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a file that exists":      {enroll("rome", "--output-dir", out), cli.ExitFailed, "rome.yaml already exists"},
		"several to the terminal": {enroll("rome", "berlin"), cli.ExitUsage, "--output-dir is required"},
		"all to the terminal":     {enroll("--all"), cli.ExitUsage, "--output-dir is required"},
		"several for one Kyma": {enroll("rome", "berlin", "--kyma", "one", "--output-dir", out), cli.ExitUsage,
			"name one runtime"},
		"names and a selector": {enroll("rome", "-l", "a=b", "--output-dir", out), cli.ExitUsage,
			"give one or the other"},
		"many without a yes": {enroll(append(slices.Clone(many), "--output-dir", out)...), cli.ExitUsage,
			"enroll 11 runtimes: add --yes"},
		"a dry run of many": {enroll(append(slices.Clone(many), "--dry-run")...), cli.ExitDone,
			"11 runtimes selected, nothing is written"},
		"many with a yes": {enroll(append(slices.Clone(many), "--output-dir", out, "--yes")...),
			cli.ExitDone, "11 runtimes enrolled"},
		"a path instead of a name": {enroll("a", "../b", "--output-dir", out), cli.ExitUsage, `runtime id "../b"`},
		"all, of no control plane": {enroll("--all", "--output-dir", out, "--kubeconfig", "/nowhere"),
			cli.ExitFailed, "kubeconfig"},
		"no folder that can be one": {enroll("c", "d", "--output-dir", filepath.Join(out, "rome.yaml", "x")),
			cli.ExitFailed, "not a directory"},
	} {
		if o := run(c.args...); o.code != c.code || !strings.Contains(o.out+o.err, c.want) {
			t.Errorf("%s: got %+v, want %d with %q", name, o, c.code, c.want)
		}
	}
}
