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

// WriteUsers writes an htpasswd file. users maps user names to passwords.
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

func (r *Registry) makeCertificate() error {
	host, _, err := net.SplitHostPort(r.address)
	if err != nil {
		return err
	}
	certificate, key, err := NewCertificate(net.ParseIP(host))
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	r.certificate, r.ca = &pair, certificate
	return err
}

// NewCertificate creates a self-signed CA certificate for a day, and its key. Both are PEM-encoded.
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
		IPAddresses: []net.IP{address}, DNSNames: names,
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
