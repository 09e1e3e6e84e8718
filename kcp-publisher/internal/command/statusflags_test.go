package command

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestStatusRefusesFlagsWithoutEffect(t *testing.T) {
	for args, want := range map[string]string{
		"-o csv":                  `-o "csv": must be table, json, yaml, wide or name`,
		"--health Failing,Behnd":  `--health "Behnd": must be one of Failing, Silent`,
		"-w -o yaml":              "--watch does not support -o yaml: use table, wide or json",
		"-w --exit-code":          "--exit-code cannot be combined with --watch",
		"-l a=b=c":                `--selector "a=b=c": `,
		"berlin tokyo":            "expected at most one runtime ID",
		"--kubeconfig /nowhere x": "/nowhere",
	} {
		o := run(append([]string{"status"}, strings.Fields(args)...)...)
		if o.code == cli.ExitDone || !strings.Contains(o.err, want) {
			t.Errorf("%s: got %+v, want %q", args, o, want)
		}
	}
}
