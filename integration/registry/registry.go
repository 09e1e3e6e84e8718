// Package registry runs a real OCI registry (distribution) in this process. Tests can stop and restart it, and
// intercept requests.
package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd" // registers basic authentication
	_ "github.com/distribution/distribution/v3/registry/auth/token"    // registers token authentication
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem" // registers the storage driver
	"github.com/sirupsen/logrus"

	"github.com/kyma-pull/kyma-pull/integration/loopback"
)

// Options configure a registry.
type Options struct {
	// Dir is the folder for the data. If empty, Start creates a temporary folder.
	Dir string
	// Address is the HOST:PORT to listen on, with an IP as host. The default is a free loopback address.
	Address string
	// TLS serves HTTPS with a certificate from a new CA (see CA).
	TLS bool
	// NextCertificates is the number of additional certificates for ReplaceCertificate, each from a different CA.
	NextCertificates int
	// Users maps user names to passwords. Nil allows anonymous access.
	Users map[string]string
	// KeySet is a file with the public keys of a token service (see ServeTokens). If it is set, the registry accepts
	// only requests with a token from that service.
	KeySet string
	// Config is the content of a distribution configuration file, for storage and authentication. It can be nil.
	Config []byte
	// NotifyURL is the URL that the registry notifies after each push. The notification contains NotifyToken. If
	// NotifyURL is empty, the registry does not send notifications.
	NotifyURL, NotifyToken string
}

// Names that the token service must use in its tokens.
const (
	TokenIssuer  = "kyma-pull"
	TokenService = "registry"
	tokenPath    = "/auth/token"
)

// Registry is a registry at a fixed address, running or stopped.
type Registry struct {
	address string
	dir     string
	ownDir  bool
	handler http.Handler

	mu     sync.Mutex // guards the fields below
	server *http.Server
	// certificates contains the current and the next certificates. It is empty without TLS.
	certificates []issued
	intercept    func(http.ResponseWriter, *http.Request) bool
	observe      func(*http.Request, int)
	tokens       http.Handler
	traffic      Traffic
}

// Start starts a registry. The registry runs until Close, even if ctx ends earlier.
func Start(ctx context.Context, options Options) (*Registry, error) {
	r := &Registry{dir: options.Dir, traffic: Traffic{}}
	if r.dir == "" {
		dir, err := os.MkdirTemp("", "kyma-pull-registry-")
		if err != nil {
			return nil, err
		}
		r.dir, r.ownDir = dir, true
	}
	if err := r.configure(ctx, options); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	listener, err := listen(ctx, options.Address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the registry: %w", err), r.Close())
	}
	r.address = listener.Addr().String()
	for n := 0; options.TLS && n <= options.NextCertificates; n++ {
		if err := r.issueCertificate(); err != nil {
			return nil, errors.Join(err, listener.Close(), r.Close())
		}
	}
	r.serve(listener)
	return r, nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		return loopback.Listen()
	}
	return loopback.ListenAt(ctx, address)
}

func (r *Registry) configure(ctx context.Context, options Options) error {
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{Storage: configuration.Storage{
		"filesystem": configuration.Parameters{"rootdirectory": filepath.Join(r.dir, "data")},
		"delete":     configuration.Parameters{"enabled": true},
		// The goroutine that purges uploads would continue after Close.
		"maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}},
	}}
	if options.Config != nil {
		parsed, err := configuration.Parse(bytes.NewReader(options.Config))
		if err != nil {
			return fmt.Errorf("parse the registry's configuration: %w", err)
		}
		parsed.Storage["maintenance"] = config.Storage["maintenance"]
		config = parsed
	}
	config.Catalog.MaxEntries = 1000 // the default that distribution sets when it parses a configuration file
	config.Log.Level = "panic"
	config.Log.AccessLog.Disabled = true
	config.HTTP.Secret = "loopback"
	if options.Users != nil {
		path := filepath.Join(r.dir, "htpasswd")
		if err := WriteUsers(path, options.Users); err != nil {
			return err
		}
		config.Auth = configuration.Auth{"htpasswd": configuration.Parameters{"realm": "kyma-pull", "path": path}}
	}
	if options.KeySet != "" {
		config.Auth = configuration.Auth{"token": configuration.Parameters{
			"realm": tokenPath, "autoredirect": true, "autoredirectpath": tokenPath, "issuer": TokenIssuer,
			"service": TokenService,
			"jwks":    options.KeySet, "signingalgorithms": []any{"ES256"},
		}}
	}
	if options.NotifyURL != "" {
		config.Notifications.Endpoints = []configuration.Endpoint{{
			Name: "kcp-publisher", URL: options.NotifyURL, Headers: http.Header{
				"Authorization": {"Bearer " + options.NotifyToken},
			},
			Timeout: 5 * time.Second, Threshold: 3, Backoff: time.Second,
			// The registry ignores the same actions as in docs/guides/notifications.md.
			Ignore: configuration.Ignore{Actions: []string{"pull", "mount", "delete"}},
		}}
	}
	r.handler = handlers.NewApp(context.WithoutCancel(ctx), config)
	return nil
}

func (r *Registry) serve(listener net.Listener) {
	server := &http.Server{Handler: http.HandlerFunc(r.answer), ReadHeaderTimeout: time.Minute,
		// Scenarios cause TLS errors on purpose.
		ErrorLog: log.New(io.Discard, "", 0)}
	r.mu.Lock()
	if len(r.certificates) > 0 {
		listener = tls.NewListener(listener, &tls.Config{
			GetCertificate: r.currentCertificate, MinVersion: tls.VersionTLS12,
		})
	}
	r.server = server
	r.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // Serve returns ErrServerClosed after Stop
}

func (r *Registry) answer(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.traffic.count(request)
	intercept, observe, tokens := r.intercept, r.observe, r.tokens
	r.mu.Unlock()
	if observe != nil {
		noted := &answered{ResponseWriter: w, status: http.StatusOK}
		defer func() { observe(request, noted.status) }()
		w = noted
	}
	if intercept != nil && intercept(w, request) {
		return
	}
	if tokens != nil && request.URL.Path == tokenPath {
		tokens.ServeHTTP(w, request)
		return
	}
	r.handler.ServeHTTP(w, request)
}

// Host returns the host and port of the registry.
func (r *Registry) Host() string { return r.address }

// Dir returns the folder with the data.
func (r *Registry) Dir() string { return r.dir }

// Requests returns the number of requests.
func (r *Registry) Requests() int64 { return int64(r.Traffic().Total()) }

// Writes returns the number of requests that could change data.
func (r *Registry) Writes() int64 { return int64(r.Traffic().Writes()) }

// Traffic returns a copy of the request counts, including intercepted requests.
func (r *Registry) Traffic() Traffic {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.traffic)
}

// Intercept calls f before the registry handles a request. If f returns true, the registry does not handle the
// request. Nil removes f.
func (r *Registry) Intercept(f func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = f
}

// Observe calls f after every request. Nil removes f.
func (r *Registry) Observe(f func(request *http.Request, status int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observe = f
}

type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// ServeTokens forwards token requests to the service at an address, as an ingress does.
func (r *Registry) ServeTokens(address string) {
	proxy := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(&url.URL{Scheme: "http", Host: address})
	}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = proxy
}

// Stop stops serving requests. The data remains.
func (r *Registry) Stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == nil {
		return nil
	}
	err := r.server.Close()
	r.server = nil
	return err
}

// Resume starts the registry again at the same address with the same data.
func (r *Registry) Resume() error {
	listener, err := loopback.ListenAt(context.Background(), r.address)
	if err != nil {
		return fmt.Errorf("listen on %s again: %w", r.address, err)
	}
	r.serve(listener)
	return nil
}

// Close stops the registry and removes the folder that Start created.
func (r *Registry) Close() error {
	err := r.Stop()
	if r.ownDir {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}
