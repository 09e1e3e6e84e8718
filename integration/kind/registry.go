package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// The registry's address in its network. The token service has the same host, because clients send a registry password
// only to the registry's own host.
const (
	registryName = "registry.kyma-pull.test"
	registryPort = "5000"
	tokenPort    = "5443"
	// moduleRepositories matches the repositories that every runtime can read.
	moduleRepositories = "modules/**"
)

// Names of the registry's containers and volume. ownerContainer runs a second registry with the same data, but without
// TLS and passwords. Only this machine can reach it.
const (
	registryContainer = prefix + "registry"
	tokenContainer    = prefix + "token-service"
	ownerContainer    = prefix + "registry-owner"
	registryVolume    = prefix + "registry"
)

// registryServer is the registry with its token service.
type registryServer struct {
	network string
	dir     string // folder with the configuration, certificate and key
	keys    string // path of the fleet's key folder
}

const registryConfig = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: /data}, delete: {enabled: true}}
`

func (s *registryServer) start(ctx context.Context, location string) error {
	certificate, key, err := registry.NewCertificate(net.IPv4(127, 0, 0, 1), registryName)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"tls.crt": certificate, "tls.key": key,
		"owner.yaml": []byte(registryConfig + "http: {addr: \":5000\", secret: test}\n"),
		"config.yaml": fmt.Appendf(nil, `%shttp: {addr: ":%s", secret: test, tls: {certificate: /etc/registry/tls.crt, key: /etc/registry/tls.key}}
auth:
  token:
    realm: https://%s:%s/auth/token
    issuer: kyma-pull
    service: %[3]s
    jwks: /keys/registry.jwks.json
    signingalgorithms: [ES256]
`, registryConfig, registryPort, registryName, tokenPort),
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	// root can read both the registry's volume and the mounted files
	common := []string{
		"run", "--detach", "--user", "0:0", "--volume", s.dir + ":/etc/registry:ro", "--volume",
		registryVolume + ":/data", "--volume", s.keys + ":/keys:ro",
	}
	for _, container := range [][]string{
		append(common, "--name", registryContainer, "--network", s.network, "--network-alias", registryName,
			registryImage+":"+tag, "/etc/registry/config.yaml"),
		append(common, "--name", tokenContainer, "--network", "container:"+registryContainer, publisherImage+":"+tag,
			"token-service",
			"--keys", "/keys", "--location", location, "--service", registryName, "--module-repository",
			moduleRepositories, "--bind-address", ":"+tokenPort,
			"--tls-certificate", "/etc/registry/tls.crt", "--tls-key", "/etc/registry/tls.key"),
		append(common, "--name", ownerContainer, "--publish", "127.0.0.1::5000", registryImage+":"+tag,
			"/etc/registry/owner.yaml"),
	} {
		if _, err := docker(ctx, container...); err != nil {
			return err
		}
	}
	return nil
}

// owner waits until the registry without TLS responds. It returns the registry's address on this machine, and a client.
func (s *registryServer) owner(ctx context.Context) (string, *store.Registries, error) {
	published, err := docker(ctx, "port", ownerContainer, "5000/tcp")
	if err != nil {
		return "", nil, err
	}
	address, _, _ := strings.Cut(published, "\n")
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			connection.Close()
			break
		}
		select {
		case <-ctx.Done():
			return "", nil, errors.Join(fmt.Errorf("the registry does not respond at %s", address), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	registries, err := store.NewRegistries(store.Access{NoRetry: true})
	return address, registries, err
}

// cut disconnects the registry and the token service from the network.
func (s *registryServer) cut(ctx context.Context) error {
	_, err := docker(ctx, "network", "disconnect", s.network, registryContainer)
	return err
}

func (s *registryServer) heal(ctx context.Context) error {
	_, err := docker(ctx, "network", "connect", "--alias", registryName, s.network, registryContainer)
	return err
}
