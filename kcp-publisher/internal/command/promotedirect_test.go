package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestMistakesAreReportedWithoutAControlPlane(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	for args, want := range map[string]string{
		"promote keda --from fast --to fast": `--from and --to are both "fast": must be two channels of module keda`,
		"takeover plan -l =x":                `--selector "=x": found '='`,
		"takeover start":                     "exactly one of Kyma names, --selector or --all is required",
		"takeover finish --all -l a=b":       "exactly one of Kyma names, --selector or --all is required",
		"status -l =x":                       `--selector "=x": found '='`,
		"suspend -l =x":                      `--selector "=x": found '='`,
		"promote keda fast regular":          "expected a module, got 3 arguments: use keda --from fast --to regular",
	} {
		if got := run(strings.Fields(args)...); got.code != cli.ExitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%s: got %+v, want exit code %d and %q", args, got, cli.ExitUsage, want)
		}
	}
}
