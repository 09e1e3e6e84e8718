package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// Users of the token service, in addition to the runtimes. A runtime's user name is its ID.
const (
	userPublisher = "_publisher"
	userModules   = "_modules"
)

// startRegistryWithTokens starts the registry and the token service as docs/guides/registry.md describes.
func (f *Fleet) startRegistryWithTokens(ctx context.Context) (Endpoint, error) {
	if err := f.run(ctx, "registry", "init", "--keys", f.Keys()); err != nil {
		return Endpoint{}, err
	}
	var err error
	if f.Registry, err = registry.Start(ctx,
		registry.Options{TLS: true, KeySet: filepath.Join(f.Keys(), "registry.jwks.json")}); err != nil {
		return Endpoint{}, err
	}
	f.endpoint.Host = f.Registry.Host() // f.Location() needs the host
	if err := os.WriteFile(filepath.Join(f.Dir, "ca.pem"), f.Registry.CA(), 0o600); err != nil {
		return Endpoint{}, err
	}
	if err := os.WriteFile(f.Generations(), []byte("{}\n"), 0o600); err != nil {
		return Endpoint{}, err
	}
	f.tokens, err = Command{
		Binary: f.binaries.Publisher, Env: f.programEnvironment(), Log: filepath.Join(f.Dir, "token-service.log"),
		Args: []string{"token-service", "--keys", f.Keys(), "--location", f.Location(), "--service",
			registry.TokenService,
			"--issuer", registry.TokenIssuer, "--module-repository", "modules/**", "--bind-address", "127.0.0.1:0",
			"--generations", f.Generations()},
	}.Start()
	if err != nil {
		return Endpoint{}, err
	}
	var address string
	err = Until(ctx, LongTimeout, "the token service responds", func() (bool, string) {
		address = listeningAddress(f.tokens.Log())
		return address != "", f.tokens.Log()
	})
	if err != nil {
		return Endpoint{}, err
	}
	f.Registry.ServeTokens(address)
	if err := f.writeCredentials(ctx, userPublisher, filepath.Join(f.Dir, "publisher.json")); err != nil {
		return Endpoint{}, err
	}
	if err := f.writeCredentials(ctx, userModules, filepath.Join(f.Dir, userModules+".json")); err != nil {
		return Endpoint{}, err
	}
	owner, err := f.registriesOf("publisher")
	if err != nil {
		return Endpoint{}, err
	}
	modules, err := f.registriesOf(userModules)
	return Endpoint{
		Host: f.Registry.Host(), OwnerHost: f.Registry.Host(), Owner: owner, Modules: modules,
		Enroll: []string{"--registry-password", "--registry-ca", filepath.Join(f.Dir, "ca.pem")},
	}, err
}

// listeningAddress returns the address in the token service's log, or "" if the log does not contain it yet.
func listeningAddress(log string) string {
	for line := range strings.Lines(log) {
		var started struct {
			Address string `json:"address"`
		}
		if json.Unmarshal([]byte(line), &started) == nil && started.Address != "" {
			return started.Address
		}
	}
	return ""
}

// Credentials returns a docker config.json with a user's password for the token service.
func (f *Fleet) Credentials(ctx context.Context, user string) ([]byte, error) {
	config, err := exec.CommandContext(ctx, f.binaries.Publisher, "registry", "credentials", user, "--keys", f.Keys(),
		"--location", f.Location()).Output()
	if err != nil {
		return nil, fmt.Errorf("create credentials for %s: %w", user, err)
	}
	return config, nil
}

// writeCredentials writes the config.json from Credentials to path.
func (f *Fleet) writeCredentials(ctx context.Context, user, path string) error {
	config, err := f.Credentials(ctx, user)
	if err != nil {
		return err
	}
	return os.WriteFile(path, config, 0o600)
}

func (f *Fleet) registriesOf(user string) (*store.Registries, error) {
	config, err := os.ReadFile(filepath.Join(f.Dir, user+".json"))
	if err != nil {
		return nil, err
	}
	return store.NewRegistries(store.Access{NoRetry: true, DockerConfig: config, CA: f.Registry.CA()})
}

// Generations returns the path of the file with the minimum password generation of each user.
func (f *Fleet) Generations() string { return filepath.Join(f.Dir, "generations.yaml") }

// CheckRegistry runs `kcp-publisher registry check` with the credentials of two runtimes. It returns the output and
// the exit code.
func (f *Fleet) CheckRegistry(ctx context.Context, own, other string) (string, int) {
	return Run(ctx, f.binaries.Publisher, "registry", "check", "--to", f.Location(), "--keys", f.Keys(), "--runtime",
		own, "--runtime", other,
		"--registry-ca", filepath.Join(f.Dir, "ca.pem"))
}
