package admission

import (
	"bytes"
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
	"math/big"
	"net"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// secretName is the name of the Secret with the webhook certificates. All replicas share it.
	secretName = "kcp-publisher-webhook"

	keyCA, keyCAKey, keyCert, keyKey = "ca.crt", "ca.key", "tls.crt", "tls.key"

	// authorityName is the CA's common name. Publishers recognize each other's registrations by this name.
	authorityName = "kyma-pull webhooks"

	authorityLifetime = 2 * 365 * 24 * time.Hour
	servingLifetime   = 90 * 24 * time.Hour
)

// certificates manages the Secret with the webhooks' CA and serving certificate. After the CA is renewed, the API
// server also trusts the previous CA.
type certificates struct {
	// client reads from the API server, not from a cache.
	client    client.Client
	namespace string
	hosts     []string
	now       func() time.Time

	serving atomic.Pointer[tls.Certificate]
	// lastData is the Secret's data after the last call to ensure. Only one goroutine uses it.
	lastData map[string][]byte
}

// ensure creates missing certificates, and renews certificates that expire soon. It returns the CA certificates that
// the API server must trust.
func (c *certificates) ensure(ctx context.Context) (authorities []byte, err error) {
	for range 5 {
		authorities, err = c.tryEnsure(ctx)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return authorities, err
		}
		// Another replica created or changed the Secret at the same time. Use the Secret's certificates if they are
		// valid.
	}
	return nil, err
}

func (c *certificates) tryEnsure(ctx context.Context) ([]byte, error) {
	secret := &corev1.Secret{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: secretName}, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, fmt.Errorf("read Secret %s/%s: %w", c.namespace, secretName, err)
	}
	if missing {
		// If a user deleted the Secret, create it with the previous data, because the API server still trusts the
		// previous CA.
		secret.Data = c.lastData
	}
	data, changed, err := renewData(secret.Data, c.hosts, c.now())
	if err != nil {
		return nil, fmt.Errorf("create webhook certificates: %w", err)
	}
	switch {
	case missing:
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: secretName}, Type: corev1.SecretTypeTLS,
			Data: data,
		}
		err = c.client.Create(ctx, secret)
	case changed:
		secret.Data = data
		err = c.client.Update(ctx, secret)
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data[keyCert], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", c.namespace, secretName, err)
	}
	c.serving.Store(&pair)
	c.lastData = data
	return data[keyCA], nil
}

func (c *certificates) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := c.serving.Load(); pair != nil {
		return pair, nil
	}
	return nil, errors.New("the webhook certificate does not exist yet")
}

// renewData returns the Secret's data with renewed certificates, and reports whether the returned data differs from the
// given data.
func renewData(data map[string][]byte, hosts []string, now time.Time) (map[string][]byte, bool, error) {
	authority, authorityKey, err := newestPair(data[keyCA], data[keyCAKey])
	fresh := map[string][]byte{
		keyCA: data[keyCA], keyCAKey: data[keyCAKey], keyCert: data[keyCert], keyKey: data[keyKey],
	}
	changed := false
	if err != nil || needsRenewal(authority, now) {
		trusted := data[keyCA]
		if authority, authorityKey, fresh[keyCA], fresh[keyCAKey], err = newAuthority(now); err != nil {
			return nil, false, err
		}
		// The newest CA comes first. Older CAs follow, because they may still be in use.
		fresh[keyCA] = append(fresh[keyCA], validCertificates(trusted, now)...)
		changed = true
	}
	serving, _, err := newestPair(data[keyCert], data[keyKey])
	if err == nil && !changed && !needsRenewal(serving, now) && isServingFor(serving, authority, hosts) {
		return fresh, false, nil
	}
	fresh[keyCert], fresh[keyKey], err = newServing(authority, authorityKey, hosts, now)
	return fresh, true, err
}

// needsRenewal reports whether less than a third of the certificate's lifetime is left. It also returns true if the
// certificate is not valid yet.
func needsRenewal(c *x509.Certificate, now time.Time) bool {
	return now.Before(c.NotBefore) || now.After(c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore)/3))
}

func isServingFor(c, authority *x509.Certificate, hosts []string) bool {
	if c.CheckSignatureFrom(authority) != nil {
		return false
	}
	for _, host := range hosts {
		if c.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}

func newestPair(certificate, key []byte) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(certificate)
	keyBlock, _ := pem.Decode(key)
	if block == nil || keyBlock == nil {
		return nil, nil, errors.New("certificate or key is missing")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	return parsed, private, err
}

func validCertificates(certificates []byte, now time.Time) []byte {
	var kept bytes.Buffer
	for block, rest := pem.Decode(certificates); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			_ = pem.Encode(&kept, block) // cannot fail: writing to a buffer
		}
	}
	return kept.Bytes()
}

func newAuthority(now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte, error) {
	template := newTemplate(authorityName, now, authorityLifetime)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	return issueCertificate(template, nil, nil)
}

func newServing(
	authority *x509.Certificate, authorityKey *ecdsa.PrivateKey, hosts []string, now time.Time,
) (certificatePEM, keyPEM []byte, err error) {
	template := newTemplate(hosts[0], now, servingLifetime)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature,
		[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	_, _, certificatePEM, keyPEM, err = issueCertificate(template, authority, authorityKey)
	return certificatePEM, keyPEM, err
}

func newTemplate(name string, now time.Time, life time.Duration) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		// Start in the past, because the API server's clock may be behind.
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
	}
}

// issueCertificate creates a key and a certificate. authority signs the certificate. If authority is nil, the
// certificate is self-signed.
func issueCertificate(
	template, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey,
) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if authority == nil {
		authority, authorityKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, &key.PublicKey, authorityKey)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	return made, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}
