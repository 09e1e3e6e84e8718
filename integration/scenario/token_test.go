package scenario

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// refusedAll matches the last output line from a check in which every attempt was refused.
var refusedAll = regexp.MustCompile(`(?m)^(\d+) of (\d+) attempts were refused$`)

func TestRuntimesCanAccessOnlyTheirOwnRepositories(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Tokens: true})
	a := runtimeWith(t, f, "a", map[string]string{"scaler": "1.7.0"})
	// The runtimes' names are a and a-b: one name is a prefix of the other.
	must(t, f.Control.Create(ctx, fleet.NewKyma("a-b", "fast", "scaler")))
	until(t, 30*time.Second, "a-b has a bundle", func() (bool, string) {
		_, code := f.CheckRegistry(ctx, "a", "a-b")
		return code != 1, "none yet"
	})
	for _, pair := range [][2]string{{"a", "a-b"}, {"a-b", "a"}} {
		if output, code := f.CheckRegistry(ctx, pair[0], pair[1]); code != 0 || strings.Contains(output, "LEAKS") ||
			!refusedAll.MatchString(output) {
			t.Errorf("registry check of runtimes %v: exit code %d\n%s", pair, code, output)
		}
	}

	must(t, os.WriteFile(f.Generations(), []byte("a: 2\n"), 0o600))
	promote(t, f, "1.8.0")
	if output, code := f.CheckRegistry(ctx, "a", "a-b"); code != 1 || !strings.Contains(output, "401") {
		t.Errorf("check with a revoked password: exit code %d\n%s", code, output)
	}
	must(t, os.WriteFile(f.Generations(), []byte("a: 1\n"), 0o600))
	must(t, a.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))

	for _, log := range []string{"token-service.log", "kcp-publisher.log", "a.log"} {
		data, err := os.ReadFile(filepath.Join(f.Dir, log))
		must(t, err)
		if strings.Contains(string(data), "kpr1.") {
			t.Errorf("%s contains a password", log)
		}
	}
}

func TestSharedRegistryPasswordFailsTheCheck(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Secured: true})
	for _, id := range []string{"a", "b"} {
		must(t, f.Control.Create(ctx, fleet.NewKyma(id, "regular", "mailer")))
	}
	config := filepath.Join(f.Dir, "agent.json")
	var output string
	until(t, 30*time.Second, "the registry check reports a leak", func() (bool, string) {
		var code int
		output, code = fleet.Run(ctx, f.Binaries().Publisher, "registry", "check", "--to", f.Location(), "--runtime",
			"a="+config, "--runtime", "b="+config,
			"--registry-ca", filepath.Join(f.Dir, "ca.pem"))
		return code == 3, fmt.Sprint(code, output)
	})
	if !strings.Contains(output, "does not isolate runtimes from each other") || !strings.Contains(output, "LEAKS") {
		t.Errorf("the check does not print the cause:\n%s", output)
	}
}

func TestTokenServiceLoadsARenewedCertificate(t *testing.T) {
	runInQueue(t)
	dir := t.TempDir()
	program, err := fleet.Build()
	must(t, err)
	keys, log := filepath.Join(dir, "keys"), filepath.Join(dir, "log")
	for _, command := range [][]string{{"keys", "init", "--keys", keys}, {"registry", "init", "--keys", keys}} {
		if output, code := fleet.Run(t.Context(), program.Publisher, command...); code != 0 {
			t.Fatal(output)
		}
	}
	renew := func(name string) {
		certificate, key, err := registry.NewCertificate(net.IPv4(127, 0, 0, 1), name)
		must(t, err)
		must(t, errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600),
			os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)))
	}
	renew("first.example")
	logFile, err := os.Create(log)
	must(t, err)
	service := exec.CommandContext(t.Context(), program.Publisher, "token-service", "--keys", keys, "--location",
		"registry.example/fleet", "--bind-address", "127.0.0.1:0",
		"--tls-certificate", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"))
	service.Stdout, service.Stderr = logFile, logFile
	must(t, service.Start())
	serves := func(name string) {
		t.Helper()
		until(t, 60*time.Second, "the token service presents the certificate of "+name, func() (bool, string) {
			text, err := os.ReadFile(log)
			must(t, err)
			_, rest, _ := strings.Cut(string(text), `"address":"`)
			address, _, _ := strings.Cut(rest, `"`)
			// The test only reads the service's certificate, so it does not verify it.
			connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return false, fmt.Sprint(err, string(text))
			}
			defer connection.Close()
			shown := connection.ConnectionState().PeerCertificates[0].DNSNames
			return slices.Contains(shown, name), fmt.Sprint(shown)
		})
	}
	serves("first.example")
	renew("second.example")
	serves("second.example")
	must(t, service.Process.Signal(syscall.SIGTERM))
	must(t, service.Wait())
}
