package store

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
)

// renewEvery is the minimum time between two calls to Access.Renew.
const renewEvery = 30 * time.Second

// renewal contains the credentials and CA certificates, which can change while the program runs.
type renewal struct {
	mu sync.Mutex // guards the fields below
	// access contains the current DockerConfig and CA. next is the earliest time for the next call to access.Renew.
	access Access
	next   time.Time
	// stored returns a host's credentials from DockerConfig. It is nil if DockerConfig is empty.
	stored auth.CredentialFunc
	// announcedCA contains the CA certificates that TrustAlso added, in PEM.
	announcedCA []byte
	// lenders maps a host to another host. Requests to a host without credentials use the other host's credentials.
	lenders map[string]string
}

// CheckCA returns an error if a PEM file contains no certificate.
func CheckCA(file []byte) error {
	_, err := certPool(file, nil)
	return err
}

// certPool returns a pool with the system's CA certificates and the given ones, or nil if both arguments are empty.
func certPool(own, announced []byte) (*x509.CertPool, error) {
	if len(own) == 0 && len(announced) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's certificates: %w", err)
	}
	if len(own) > 0 && !pool.AppendCertsFromPEM(own) {
		return nil, errors.New("registry CA: no certificate found in the PEM file")
	}
	if len(announced) > 0 && !pool.AppendCertsFromPEM(announced) {
		return nil, errors.New("announced registry CA: no certificate found in the PEM text")
	}
	return pool, nil
}

// renew reads credentials and CA certificates again, at most once per renewEvery. If the new ones are invalid, it keeps
// the previous ones.
func (r *Registries) renew(now time.Time) {
	r.renewal.mu.Lock()
	defer r.renewal.mu.Unlock()
	w := &r.renewal
	if w.access.Renew == nil || now.Before(w.next) {
		return
	}
	w.next = now.Add(renewEvery)
	read, err := w.access.Renew()
	if err != nil {
		return
	}
	if !bytes.Equal(read.DockerConfig, w.access.DockerConfig) {
		if stored, err := storedCredentials(read.DockerConfig, w.access.Login); err == nil {
			w.access.DockerConfig, w.stored = read.DockerConfig, stored
		}
	}
	if !bytes.Equal(read.CA, w.access.CA) {
		if authorities, err := certPool(read.CA, w.announcedCA); err == nil {
			w.access.CA = read.CA
			r.egress.addAuthorities(authorities)
		}
	}
}

// TrustAlso adds trusted CA certificates, in PEM, for new connections. A second call replaces the first call's
// certificates.
func (r *Registries) TrustAlso(announced []byte) error {
	r.renewal.mu.Lock()
	defer r.renewal.mu.Unlock()
	if bytes.Equal(announced, r.renewal.announcedCA) {
		return nil
	}
	authorities, err := certPool(r.renewal.access.CA, announced)
	if err != nil {
		return err
	}
	r.renewal.announcedCA = bytes.Clone(announced)
	r.egress.addAuthorities(authorities)
	return nil
}

// ShareCredentials lets requests to the given hosts use the lender host's credentials, unless a host has its own
// credentials. A second call replaces the first call's hosts. All names are HOST or HOST:PORT.
func (r *Registries) ShareCredentials(lender string, hosts ...string) {
	r.renewal.mu.Lock()
	defer r.renewal.mu.Unlock()
	r.renewal.lenders = map[string]string{}
	for _, host := range hosts {
		r.renewal.lenders[host] = lender
	}
}

// credential returns the credentials for a host. If the host has none, credential returns those of the lender that
// ShareCredentials set for the host.
func (r *Registries) credential(ctx context.Context, host string) (auth.Credential, error) {
	r.renewal.mu.Lock()
	stored, lender := r.renewal.stored, r.renewal.lenders[host]
	r.renewal.mu.Unlock()
	if stored == nil {
		return auth.EmptyCredential, nil
	}
	found, err := stored(ctx, host)
	if err != nil || found != auth.EmptyCredential || lender == "" {
		return found, err
	}
	return stored(ctx, lender)
}

// basicToken returns the current credentials for a host as the value of a Basic Authorization header.
func (r *Registries) basicToken(ctx context.Context, host string) (string, error) {
	found, err := r.credential(ctx, host)
	if err != nil {
		return "", err
	}
	if found.Username == "" || found.Password == "" {
		return "", auth.ErrBasicCredentialNotFound
	}
	return base64.StdEncoding.EncodeToString([]byte(found.Username + ":" + found.Password)), nil
}
