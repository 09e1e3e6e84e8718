package scenario

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// registryUsers are the users in docs/guides/registry.md with their passwords.
var registryUsers = map[string]string{"publisher": "p", "pruner": "d", "releaser": "m", "berlin": "b", "tokyo": "t"}

// registryExample is a registry with a configuration from docs/guides/registry.
type registryExample struct {
	t        *testing.T
	dir      string
	host, ca string
}

func newRegistryExample(t *testing.T) *registryExample {
	t.Helper()
	runInQueue(t)
	return &registryExample{t: t, dir: t.TempDir()}
}

func (e *registryExample) path(name string) string { return filepath.Join(e.dir, name) }

// configuration reads a configuration file and changes its paths to the test's folder.
func (e *registryExample) configuration(name string) []byte {
	e.t.Helper()
	data, err := os.ReadFile(filepath.Join(checkout, "docs/guides/registry", name))
	must(e.t, err)
	must(e.t, registry.WriteUsers(e.path("htpasswd"), registryUsers))
	return []byte(strings.NewReplacer("/etc/registry", e.dir, "/var/lib/registry", e.path("data")).
		Replace(string(data)))
}

// login writes a docker config.json for each user.
func (e *registryExample) login() {
	e.t.Helper()
	for user, password := range registryUsers {
		auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		must(e.t,
			os.WriteFile(e.path(user+".json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, e.host, auth), 0o600))
	}
}

func (e *registryExample) run(want int, args ...string) string {
	e.t.Helper()
	binaries, err := fleet.Build()
	must(e.t, err)
	output, code := fleet.Run(e.t.Context(), binaries.Publisher, args...)
	if code != want {
		e.t.Fatalf("%v: exit code %d, want %d\n%s", args, code, want, output)
	}
	return output
}

func (e *registryExample) secured(args ...string) []string {
	if e.ca != "" {
		args = append(args, "--registry-ca", e.ca)
	}
	return args
}

// prove publishes bundles for berlin and tokyo, and checks the exit code of `registry check`.
func (e *registryExample) prove(want int, more ...string) string {
	e.t.Helper()
	location := e.host + "/fleet"
	if _, err := os.Stat(e.path("keys")); err != nil {
		e.run(0, "keys", "init", "--keys", e.path("keys"))
	}
	e.run(0, e.secured("publish", "--from", filepath.Join(checkout, "docs/example"), "--to", location, "--keys",
		e.path("keys"), "--registry-config", e.path("publisher.json"))...)
	if len(more) == 0 {
		more = []string{"--runtime", "berlin=" + e.path("berlin.json"), "--runtime", "tokyo=" + e.path("tokyo.json")}
	}
	return e.run(want, e.secured(append([]string{"registry", "check", "--to", location}, more...)...)...)
}

func (e *registryExample) startDistribution(config []byte) *registry.Registry {
	e.t.Helper()
	r, err := registry.Start(e.t.Context(), registry.Options{TLS: true, Dir: e.dir, Config: config})
	must(e.t, err)
	e.t.Cleanup(func() { _ = r.Close() })
	e.host, e.ca = r.Host(), e.path("ca.pem")
	must(e.t, os.WriteFile(e.ca, r.CA(), 0o600))
	e.login()
	return r
}

// zot runs with the documented configuration and with continuous garbage collection.
func TestZotConfigurationIsolatesRuntimes(t *testing.T) {
	suite.Long(t)
	e := newRegistryExample(t)
	config := strings.ReplaceAll(string(e.configuration("zot.json")), `"24h"`, `"1s"`)
	z, err := registry.StartZot(t.Context(), e.dir, packedZot, []byte(config))
	if errors.Is(err, registry.ErrNoZot) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { _ = z.Stop() })
	e.host = z.Host()
	e.login()
	for range 2 {
		if output := e.prove(0); !refusedAll.MatchString(output) {
			t.Errorf("not every forbidden request was refused:\n%s", output)
		}
	}
}

func (e *registryExample) shell() shell {
	e.t.Helper()
	binaries, err := fleet.Build()
	must(e.t, err)
	// On the page, registry and token service have the same host name. In the test, each has its own address.
	return newPlainShell(e.t, e.dir, binaries, "registry.example/fleet", e.host+"/fleet", "token-service ",
		"token-service --service registry.example --bind-address 127.0.0.1:0 ",
		"registry check ", "registry check --registry-ca "+e.ca+" ")
}

// startTokenService starts the token service with a command line from a page, and returns its address.
func (e *registryExample) startTokenService(line string) (address string) {
	e.t.Helper()
	s := e.shell()
	log, err := os.CreateTemp(e.dir, "token-service")
	must(e.t, err)
	service := exec.CommandContext(e.t.Context(), "bash", "-euc", "exec "+s.replaced.Replace(line))
	service.Dir, service.Env, service.Stdout, service.Stderr = e.dir, s.env, log, log
	must(e.t, service.Start())
	e.t.Cleanup(func() {
		_ = service.Process.Kill()
		_ = service.Wait() // the service was killed
		log.Close()
	})
	until(e.t, time.Minute, "the token service responds", func() (bool, string) {
		text, err := os.ReadFile(log.Name())
		must(e.t, err)
		_, rest, _ := strings.Cut(string(text), `"address":"`)
		found := false
		address, _, found = strings.Cut(rest, `"`)
		return found, string(text)
	})
	return address
}

// The test runs docs/guides/registry.md and docs/guides/registry-configurations.md.
func TestDistributionRegistryWithTokenServiceIsolatesRuntimes(t *testing.T) {
	suite.Long(t)
	e := newRegistryExample(t)
	page, inShort := blocksOf(t, "docs/guides/registry.md", 3), blocksOf(t, "docs/guides/registry-configurations.md", 2)
	start := lines(page[0])
	e.run(0, "keys", "init", "--keys", e.path("keys"))
	e.shell().run(start[0])
	set, err := os.ReadFile(e.path("keys/registry.jwks.json"))
	must(t, err)
	must(t, os.WriteFile(e.path("registry.jwks.json"), set, 0o600))
	must(t, os.WriteFile(e.path("generations.yaml"), nil, 0o600))
	r := e.startDistribution(e.configuration("distribution-token.yaml"))
	r.ServeTokens(e.startTokenService(start[1]))
	if manifests := e.shell().run(strings.Join(start[2:], "\n")); !strings.Contains(manifests, ".dockerconfigjson") {
		t.Errorf("enroll --registry-password printed no password:\n%s", manifests)
	}
	if output := e.prove(0, "--runtime", "berlin", "--runtime", "tokyo", "--keys",
		e.path("keys")); !refusedAll.MatchString(output) {
		t.Errorf("not every forbidden request was refused:\n%s", output)
	}
	for _, runtime := range []string{"berlin", "tokyo"} {
		e.shell().
			run("kcp-publisher registry credentials " + runtime + " --keys keys --location registry.example/fleet > " +
				runtime + ".json")
	}
	for _, line := range append(lines(page[2]), lines(inShort[1])...) {
		if output := e.shell().run(line); !refusedAll.MatchString(output) {
			t.Errorf("%s: not every forbidden request was refused:\n%s", line, output)
		}
	}
	must(t, os.Remove(e.path("keys/registry.key")))
	e.shell().run(lines(inShort[0])[0])
	e.startTokenService(lines(inShort[0])[1])
}

// A registry with an htpasswd file rejects unknown users but does not isolate runtimes.
func TestDistributionPasswordsDoNotIsolateRuntimes(t *testing.T) {
	e := newRegistryExample(t)
	e.startDistribution(e.configuration("distribution-htpasswd.yaml"))
	if output := e.prove(3); !strings.Contains(output, "does not isolate runtimes from each other") {
		t.Errorf("unexpected output of the check:\n%s", output)
	}
}
