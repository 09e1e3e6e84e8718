package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Registries opens OCI repositories by their full name. All repositories share an HTTP client and a credential cache.
type Registries struct {
	client    *auth.Client
	egress    *egress
	chunked   *chunkedHosts
	plainHTTP bool
	secured   bool
	renewal   renewal
}

// maxHeaderBytes limits a response's headers. A header contains, for example, a token's scope.
const maxHeaderBytes = 64 << 10

// NewRegistries returns Registries with this access. It does not perform I/O.
func NewRegistries(access Access) (*Registries, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	transport.ResponseHeaderTimeout = 30 * time.Second
	transport.MaxResponseHeaderBytes = maxHeaderBytes
	authorities, err := certPool(access.CA, nil)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
	for _, host := range access.BlobHosts {
		if err := CheckBlobHost(host); err != nil {
			return nil, fmt.Errorf("blob host %q: %w", host, err)
		}
	}
	limited := newEgress(transport)
	var sender http.RoundTripper = limited
	if access.Observe != nil {
		sender = access.Observe(limited)
	}
	pauses := newPauses(detailsTransport{sender})
	if !access.NoRetry {
		pauses.maxWait = maxRetryAfter
	}
	sender = pauses
	tokens := newTokenCache(maxTokenBytes)
	client := &auth.Client{Cache: tokens, Client: &http.Client{
		Transport: sender, Timeout: access.RequestTimeout, CheckRedirect: checkRedirects(access.BlobHosts),
	}}
	if access.RequestTimeout == 0 {
		client.Client.Timeout = DefaultRequestTimeout
	}
	if !access.NoRetry {
		client.Client.Transport = withRetry(sender)
	}
	stored, err := storedCredentials(access.DockerConfig, access.Login)
	if err != nil {
		return nil, err
	}
	r := &Registries{
		client: client, egress: limited, chunked: newChunkedHosts(), plainHTTP: access.PlainHTTP, secured: len(access.CA) > 0,
		renewal: renewal{access: access, stored: stored, next: time.Now().Add(renewEvery)},
	}
	client.Credential, tokens.basic = r.credential, r.basicToken
	return r, nil
}

// Repository opens the repository with this full name, such as "registry.example:5000/fleet/content". It does not
// perform I/O.
func (r *Registries) Repository(name string) (*remote.Repository, error) {
	return r.repository(name, true)
}

// Foreign opens a repository whose name comes from a component descriptor and not from the configuration. Requests fail
// if the host resolves to a loopback or link-local address, or to a cloud's metadata service.
func (r *Registries) Foreign(name string) (*remote.Repository, error) {
	return r.repository(name, false)
}

func (r *Registries) repository(name string, configured bool) (*remote.Repository, error) {
	r.renew(time.Now())
	repository, err := remote.NewRepository(name)
	if err != nil {
		return nil, fmt.Errorf("repository %q: %w", name, err)
	}
	if repository.Reference.Reference != "" {
		return nil, fmt.Errorf("repository %q: remove the tag or digest", name)
	}
	r.egress.allowHost(repository.Reference.Host(), configured)
	repository.Client = client{r.client, r.chunked}
	repository.PlainHTTP = r.plainHTTP || !r.secured && isLoopback(repository.Reference.Host())
	repository.MaxMetadataBytes = bundle.MaxManifestBytes
	return repository, nil
}

func isLoopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// Registry stores a fleet's repositories below one path prefix of an OCI registry.
type Registry struct {
	registries *Registries
	prefix     string
}

// String returns the prefix, HOST/PATH.
func (r *Registry) String() string { return r.prefix }

// Name returns HOST/PATH/REPOSITORY.
func (r *Registry) Name(repository string) string { return r.prefix + "/" + repository }

// Holds reports whether a repository is on the same registry host. It can be outside the prefix.
func (r *Registry) Holds(repository string) bool {
	host, _, _ := strings.Cut(r.prefix, "/")
	return strings.HasPrefix(repository, "./") || strings.HasPrefix(repository, host+"/")
}

// Repository opens a repository below the prefix.
func (r *Registry) Repository(_ context.Context, name string) (oras.Target, error) {
	return r.registries.Repository(r.Name(name))
}

// Reading opens a repository below the prefix.
func (r *Registry) Reading(_ context.Context, name string) (oras.ReadOnlyTarget, error) {
	return r.registries.Repository(r.Name(name))
}
