package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestRunCommandUsesKubeconfigFromEnvironment(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "of-the-environment")
	write(t, broken, "clusters: none\n")
	t.Setenv("KUBECONFIG", broken)
	o := run("run", "--location", "registry.example/fleet", "--keys", keyFolder(t))
	if o.code != cli.ExitFailed || !strings.Contains(o.err, broken) {
		t.Errorf("exit %d: %s", o.code, o.err)
	}
}
