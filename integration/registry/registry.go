// Package registry runs a real OCI registry (distribution) in this process, with a filesystem behind it, and lets a scenario
// take it down, bring it back and answer in its place.
package registry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd" // basic authentication
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem" // storage
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"
)

// Options describe a registry.
type Options struct {
	// Dir keeps the data; empty makes a folder that Close removes.
	Dir string
	// TLS serves HTTPS with a certificate of a CA made at the start (CA).
	TLS bool
	// Users are names with passwords; nil lets everybody in.
	Users map[string]string
}

// Registry is a registry at a fixed address, running or stopped.
type Registry struct {
	address     string
	dir         string
	ownDir      bool
	handler     http.Handler
	certificate *tls.Certificate
	ca          []byte
	requests    atomic.Int64
	writes      atomic.Int64

	mu        sync.Mutex // guards what follows
	server    *http.Server
	intercept func(http.ResponseWriter, *http.Request) bool
}

// Start brings a registry up on a free port of the loopback address.
func Start(options Options) (*Registry, error) {
	r := &Registry{dir: options.Dir}
	if r.dir == "" {
		dir, err := os.MkdirTemp("", "kyma-pull-registry-")
		if err != nil {
			return nil, err
		}
		r.dir, r.ownDir = dir, true
	}
	if err := r.configure(options); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.address = listener.Addr().String()
	r.serve(listener)
	return r, nil
}

func (r *Registry) configure(options Options) error {
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{Storage: configuration.Storage{
		"filesystem": configuration.Parameters{"rootdirectory": filepath.Join(r.dir, "data")},
		"delete":     configuration.Parameters{"enabled": true},
	}}
	config.Log.Level = "panic"
	config.Log.AccessLog.Disabled = true
	config.HTTP.Secret = "loopback"
	if options.Users != nil {
		path := filepath.Join(r.dir, "htpasswd")
		if err := writeUsers(path, options.Users); err != nil {
			return err
		}
		config.Auth = configuration.Auth{"htpasswd": configuration.Parameters{"realm": "kyma-pull", "path": path}}
	}
	if options.TLS {
		if err := r.makeCertificate(); err != nil {
			return err
		}
	}
	r.handler = handlers.NewApp(context.Background(), config)
	return nil
}

func writeUsers(path string, users map[string]string) error {
	var lines []byte
	for name, password := range users {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			return err
		}
		lines = fmt.Appendf(lines, "%s:%s\n", name, hash)
	}
	return os.WriteFile(path, lines, 0o600)
}

func (r *Registry) makeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registry"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	r.certificate = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	r.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return nil
}

func (r *Registry) serve(listener net.Listener) {
	server := &http.Server{Handler: http.HandlerFunc(r.answer), ReadHeaderTimeout: time.Minute}
	if r.certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*r.certificate}, MinVersion: tls.VersionTLS12})
	}
	r.mu.Lock()
	r.server = server
	r.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // ends with ErrServerClosed when stopped
}

func (r *Registry) answer(w http.ResponseWriter, request *http.Request) {
	r.requests.Add(1)
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		r.writes.Add(1)
	}
	r.mu.Lock()
	intercept := r.intercept
	r.mu.Unlock()
	if intercept != nil && intercept(w, request) {
		return
	}
	r.handler.ServeHTTP(w, request)
}

// Host is the registry's host and port.
func (r *Registry) Host() string { return r.address }

// CA is the PEM certificate that the registry's descends from, nil without TLS.
func (r *Registry) CA() []byte { return r.ca }

// Requests counts all requests so far, Writes those that could change something.
func (r *Registry) Requests() int64 { return r.requests.Load() }

// Writes counts the requests so far that could change something.
func (r *Registry) Writes() int64 { return r.writes.Load() }

// Intercept lets f answer requests in the registry's place, for as long as it returns true; nil ends that.
func (r *Registry) Intercept(f func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = f
}

// Stop takes the registry off the network at once; the data stays.
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

// Resume brings it back at the same address.
func (r *Registry) Resume() error {
	listener, err := net.Listen("tcp", r.address)
	if err != nil {
		return fmt.Errorf("listen on %s again: %w", r.address, err)
	}
	r.serve(listener)
	return nil
}

// Close stops the registry and removes the folder it made.
func (r *Registry) Close() error {
	err := r.Stop()
	if r.ownDir {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}
