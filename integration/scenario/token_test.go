package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func TestRuntimesThatShareARegistryReachOnlyWhatIsTheirs(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Tokens: true})
	a := runtimeWith(t, f, "a", map[string]string{"scaler": "1.7.0"})
	must(t, f.Control.Create(ctx, fleet.NewKyma("a-b", "fast", "scaler"))) // a runtime whose name begins with the other's
	until(t, 30*time.Second, "a-b has a bundle", func() (bool, string) {
		_, code := f.CheckRegistry(ctx, "a", "a-b")
		return code != 1, "none yet"
	})
	for _, pair := range [][2]string{{"a", "a-b"}, {"a-b", "a"}} {
		if output, code := f.CheckRegistry(ctx, pair[0], pair[1]); code != 0 || strings.Contains(output, "LEAKS") {
			t.Errorf("%v: exit code %d\n%s", pair, code, output)
		}
	}

	must(t, os.WriteFile(f.Generations(), []byte("a: 2\n"), 0o600))
	promote(t, f, "1.8.0")
	if output, code := f.CheckRegistry(ctx, "a", "a-b"); code != 1 || !strings.Contains(output, "401") {
		t.Errorf("a revoked password: exit code %d\n%s", code, output)
	}
	must(t, os.WriteFile(f.Generations(), []byte("a: 1\n"), 0o600))
	must(t, a.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))

	for _, log := range []string{"token-service.log", "kcp-publisher.log", "a.log"} {
		data, err := os.ReadFile(filepath.Join(f.Dir, log))
		must(t, err)
		if strings.Contains(string(data), "kpr1.") {
			t.Errorf("%s holds a password", log)
		}
	}
}

func TestARegistryWithOnePasswordForAllAgentsIsRefused(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Secured: true})
	for _, id := range []string{"a", "b"} {
		must(t, f.Control.Create(ctx, fleet.NewKyma(id, "regular", "mailer")))
	}
	config := filepath.Join(f.Dir, "agent.json")
	var output string
	until(t, 30*time.Second, "the check has something to find", func() (bool, string) {
		var code int
		output, code = fleet.Run(ctx, f.Binaries().Publisher, "registry", "check", "--to", f.Location(), "--runtime", "a="+config, "--runtime", "b="+config,
			"--registry-ca", filepath.Join(f.Dir, "ca.pem"))
		return code == 3, fmt.Sprint(code, output)
	})
	if !strings.Contains(output, "does not keep runtimes apart") || !strings.Contains(output, "LEAKS") {
		t.Errorf("it does not say why:\n%s", output)
	}
}
