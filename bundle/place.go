package bundle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

// LayoutScheme starts a location that is a folder instead of a registry.
const LayoutScheme = "oci-layout:"

// Access is how registries are spoken to.
type Access struct {
	// DockerConfig is the content of a docker config.json with credentials, empty for none.
	DockerConfig []byte
	// CA is a PEM bundle that registries' certificates may also descend from, empty for the system's alone.
	CA []byte
	// PlainHTTP speaks HTTP to every registry. Loopback addresses are spoken to in HTTP anyway, as docker does, unless
	// CA is set.
	PlainHTTP bool
	// RequestTimeout bounds one request with its body; 0 means DefaultRequestTimeout.
	RequestTimeout time.Duration
	// NoRetry fails at the first error, for callers with a backoff of their own.
	NoRetry bool
}

// DefaultRequestTimeout bounds one request to a registry with its body: 32 MiB at half a MiB a second.
const DefaultRequestTimeout = time.Minute

// Registries opens OCI repositories by their full name, with one HTTP client and one credential cache for all.
type Registries struct {
	client    *auth.Client
	plainHTTP bool
	secured   bool
}

// NewRegistries prepares access. It does no I/O.
func NewRegistries(access Access) (*Registries, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	transport.ResponseHeaderTimeout = 30 * time.Second
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if len(access.CA) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's certificates: %w", err)
		}
		if !pool.AppendCertsFromPEM(access.CA) {
			return nil, errors.New("registry CA: no certificate found in the PEM file")
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	client := &auth.Client{Client: &http.Client{Transport: transport, Timeout: access.RequestTimeout}, Cache: auth.NewCache()}
	if access.RequestTimeout == 0 {
		client.Client.Timeout = DefaultRequestTimeout
	}
	if !access.NoRetry {
		client.Client.Transport = retry.NewTransport(transport)
	}
	if len(access.DockerConfig) > 0 {
		store, err := credentials.NewMemoryStoreFromDockerConfig(access.DockerConfig)
		if err != nil {
			return nil, fmt.Errorf("docker config: %w", err)
		}
		client.Credential = credentials.Credential(store)
	}
	return &Registries{client: client, plainHTTP: access.PlainHTTP, secured: len(access.CA) > 0}, nil
}

// Repository opens the repository with this full name, such as "registry.example:5000/fleet/content". It does no I/O.
func (r *Registries) Repository(name string) (*remote.Repository, error) {
	repository, err := remote.NewRepository(name)
	if err != nil {
		return nil, fmt.Errorf("repository %q: %w", name, err)
	}
	if repository.Reference.Reference != "" {
		return nil, fmt.Errorf("repository %q: remove the tag or digest", name)
	}
	repository.Client = r.client
	repository.PlainHTTP = r.plainHTTP || !r.secured && isLoopback(repository.Reference.Host())
	repository.MaxMetadataBytes = MaxManifestBytes
	return repository, nil
}

func isLoopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// Place is where bundles and reports are kept: a prefix in a registry, or an OCI layout.
type Place struct {
	registries *Registries
	// prefix is the registry's host and path, empty for a layout.
	prefix string
	layout string
}

// NewPlace reads a location: "HOST/PATH" or "oci-layout:DIR". It does no I/O.
func NewPlace(location string, registries *Registries) (*Place, error) {
	if dir, ok := strings.CutPrefix(location, LayoutScheme); ok {
		if dir == "" {
			return nil, fmt.Errorf("location %q: name a folder after %s", location, LayoutScheme)
		}
		return &Place{registries: registries, layout: dir}, nil
	}
	prefix := strings.Trim(location, "/")
	if _, err := registries.Repository(prefix + "/" + ContentRepository); err != nil || strings.Contains(location, "://") {
		return nil, fmt.Errorf("location %q: want HOST[:PORT]/PATH without a scheme, or %sDIR", location, LayoutScheme)
	}
	return &Place{registries: registries, prefix: prefix}, nil
}

// IsLayout says that the place is a folder.
func (p *Place) IsLayout() bool { return p.layout != "" }

// String gives the location.
func (p *Place) String() string {
	if p.IsLayout() {
		return LayoutScheme + p.layout
	}
	return p.prefix
}

// Name gives the full name of a repository below the place, as it stands in Content.Repository.
func (p *Place) Name(repository string) string {
	if p.IsLayout() {
		return "./" + repository
	}
	return p.prefix + "/" + repository
}

// Holds says that a repository, as it stands in Content.Repository, is in the registry or folder of the place.
func (p *Place) Holds(repository string) bool {
	if p.IsLayout() {
		return strings.HasPrefix(repository, "./")
	}
	return strings.HasPrefix(repository, "./") || strings.HasPrefix(repository, p.host()+"/")
}

// Repository opens a repository below the place for reading and writing. A folder becomes an OCI layout when needed.
func (p *Place) Repository(_ context.Context, name string) (oras.Target, error) {
	if !p.IsLayout() {
		return p.registries.Repository(p.prefix + "/" + name)
	}
	repository, err := openLayout(p.layout, name)
	if err != nil {
		return nil, fmt.Errorf("open OCI layout %s: %w", p.layout, err)
	}
	return repository, nil
}

// Reading opens a repository below the place for reading; a folder that is no OCI layout is an error and stays as it is.
func (p *Place) Reading(ctx context.Context, name string) (oras.ReadOnlyTarget, error) {
	if !p.IsLayout() {
		return p.registries.Repository(p.prefix + "/" + name)
	}
	info, err := os.Stat(p.layout)
	if err != nil {
		return nil, fmt.Errorf("open OCI layout: %w", err)
	}
	var store oras.ReadOnlyTarget
	if info.IsDir() {
		store, err = oci.NewFromFS(ctx, os.DirFS(filepath.Clean(p.layout)))
	} else {
		store, err = oci.NewFromTar(ctx, p.layout)
	}
	if err != nil {
		return nil, fmt.Errorf("open OCI layout %s: %w", p.layout, err)
	}
	return readOnlyLayout{ReadOnlyTarget: store, name: name}, nil
}
