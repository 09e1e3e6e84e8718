package store

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
)

// renewEvery is the minimum time between two calls of Access.Renew.
const renewEvery = 30 * time.Second

// renewal is the part of the registry access that can change while a program runs.
type renewal struct {
	mu sync.Mutex // guards the fields below
	// access has the current DockerConfig and CA. next is the time of the next renewal.
	access Access
	next   time.Time
	// stored returns the credentials of the DockerConfig, or is nil.
	stored auth.CredentialFunc
	// announced are additional trusted CA certificates in PEM.
	announced []byte
	// lenders maps hosts without credentials to the hosts whose credentials they use.
	lenders map[string]string
}

// certPool returns nil if only the system's authorities are trusted.
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

// renew reads credentials and CA certificates again after renewEvery. If they are invalid, the previous ones stay in
// use.
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
		if stored, err := storedCredentials(read.DockerConfig); err == nil {
			w.access.DockerConfig, w.stored = read.DockerConfig, stored
		}
	}
	if !bytes.Equal(read.CA, w.access.CA) {
		if authorities, err := certPool(read.CA, w.announced); err == nil {
			w.access.CA = read.CA
			r.egress.trust(authorities)
		}
	}
}

// TrustAlso makes new connections also trust the CA certificates of a PEM bundle. It replaces the certificates of an
// earlier call.
func (r *Registries) TrustAlso(announced []byte) error {
	r.renewal.mu.Lock()
	defer r.renewal.mu.Unlock()
	if bytes.Equal(announced, r.renewal.announced) {
		return nil
	}
	authorities, err := certPool(r.renewal.access.CA, announced)
	if err != nil {
		return err
	}
	r.renewal.announced = bytes.Clone(announced)
	r.egress.trust(authorities)
	return nil
}

// Lend makes requests to hosts without credentials use the credentials of another host. It replaces the hosts of an
// earlier call. All names are HOST or HOST:PORT.
func (r *Registries) Lend(lender string, hosts ...string) {
	r.renewal.mu.Lock()
	defer r.renewal.mu.Unlock()
	r.renewal.lenders = map[string]string{}
	for _, host := range hosts {
		r.renewal.lenders[host] = lender
	}
}

// credential returns the credentials for a host or, if none are stored, the credentials of its lender.
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
