package registry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// WriteUsers writes an htpasswd file. The map users contains the passwords by user name.
func WriteUsers(path string, users map[string]string) error {
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

// issued is a certificate for the registry, with the certificate's CA in PEM.
type issued struct {
	pair tls.Certificate
	ca   []byte
}

// issueCertificate creates a certificate for the registry's address and for proxies on 127.0.0.1.
func (r *Registry) issueCertificate() error {
	host, _, err := net.SplitHostPort(r.address)
	if err != nil {
		return err
	}
	certificate, key, err := NewCertificate(net.ParseIP(host), "127.0.0.1")
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	r.certificates = append(r.certificates, issued{pair, certificate})
	return err
}

// CA returns the PEM certificate of the registry's CA, or nil if TLS is disabled.
func (r *Registry) CA() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.certificates) == 0 {
		return nil
	}
	return r.certificates[0].ca
}

// NextCAs returns the PEM certificates of the CAs that issued the next certificates.
func (r *Registry) NextCAs() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all [][]byte
	for _, c := range r.certificates[1:] {
		all = append(all, c.ca)
	}
	return all
}

// ReplaceCertificate replaces the certificate with the next one. It closes idle connections.
func (r *Registry) ReplaceCertificate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.certificates = r.certificates[1:]
	if r.server != nil {
		r.server.SetKeepAlivesEnabled(false)
		r.server.SetKeepAlivesEnabled(true)
	}
}

func (r *Registry) currentCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.certificates[0].pair, nil
}

// NewCertificate creates a self-signed CA certificate that is valid for one day, and its private key. Both are
// PEM-encoded. The certificate also contains the DNS names and IP addresses in names.
func NewCertificate(address net.IP, names ...string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registry"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{address},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}
