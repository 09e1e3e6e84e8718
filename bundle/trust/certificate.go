package trust

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
)

const (
	pemCertificate      = "CERTIFICATE"
	pemRequest          = "CERTIFICATE REQUEST"
	maxCertificateBytes = 8 << 10
)

// NewCertificateRequest returns a PKCS #10 request in PEM without a subject.
func NewCertificateRequest(signer Signer) (string, error) {
	key, err := cryptoSigner(signer)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return "", fmt.Errorf("create certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: der})), nil
}

func cryptoSigner(signer Signer) (crypto.Signer, error) {
	switch s := signer.(type) {
	case crypto.Signer:
		return s, nil
	case interface {
		CryptoSigner(context.Context, func(error)) (crypto.Signer, crypto.SignerOpts, error)
	}:
		key, _, err := s.CryptoSigner(context.Background(), nil)
		return key, err
	}
	return nil, fmt.Errorf("a key of type %T cannot sign certificates", signer)
}

// RequestKey verifies the signature of a certificate request and returns the public key in the request.
func RequestKey(request string) (crypto.PublicKey, error) {
	der, err := onePEM(request, pemRequest)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	if !isSupported(parsed.PublicKey) {
		return nil, fmt.Errorf("certificate request: key type %T is not accepted, must be ECDSA P-256 or Ed25519",
			parsed.PublicKey)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	return parsed.PublicKey, nil
}

func onePEM(text, kind string) ([]byte, error) {
	if len(text) > maxCertificateBytes {
		return nil, fmt.Errorf("%s is %d bytes, must be at most %d", strings.ToLower(kind), len(text),
			maxCertificateBytes)
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != kind || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, fmt.Errorf("must be exactly one PEM block %s", kind)
	}
	return block.Bytes, nil
}

// IssueCertificate returns a certificate, in PEM, for the agent's key. The certificate contains the runtime and its
// Kyma. The caller must not take the runtime or the Kyma from the certificate request, because a request's content is
// not trustworthy.
func IssueCertificate(
	enroll Signer, fleet, runtime string, kyma Kyma, key crypto.PublicKey, from, until time.Time,
) (string, error) {
	issuer, err := cryptoSigner(enroll)
	if err != nil {
		return "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", err
	}
	name, err := runtimeURI(fleet, runtime)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: certificateSubject(runtime, kyma), URIs: []*url.URL{name},
		NotBefore: from, NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	parent := &x509.Certificate{Subject: pkix.Name{CommonName: "kyma-pull enrolment"}}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, issuer)
	if err != nil {
		return "", fmt.Errorf("issue the certificate of runtime %s: %w", runtime, err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der})), nil
}

// certificateSubject returns the subject for an agent's certificate. The common name is the runtime ID. The
// organization is the Kyma's namespace, the organizational unit is the Kyma's name, and the serial number is the Kyma's
// UID.
func certificateSubject(runtime string, kyma Kyma) pkix.Name {
	subject := pkix.Name{CommonName: runtime, SerialNumber: kyma.UID}
	if kyma.Name != "" {
		subject.Organization, subject.OrganizationalUnit = []string{kyma.Namespace}, []string{kyma.Name}
	}
	return subject
}

// subjectKyma returns the Kyma in a certificate's subject, or the zero value if the subject does not contain one.
func subjectKyma(subject pkix.Name) Kyma {
	if len(subject.Organization) != 1 || len(subject.OrganizationalUnit) != 1 {
		return Kyma{}
	}
	return Kyma{Namespace: subject.Organization[0], Name: subject.OrganizationalUnit[0], UID: subject.SerialNumber}
}

// runtimeURI returns a runtime's SPIFFE ID.
func runtimeURI(fleet, runtime string) (*url.URL, error) {
	if fleet == "" {
		fleet = "kyma-pull"
	}
	if err := errors.Join(CheckRuntimeID(fleet), CheckRuntimeID(runtime)); err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "spiffe", Host: fleet, Path: "/runtime/" + runtime}, nil
}

// Certificate is an agent's verified certificate.
type Certificate struct {
	Key crypto.PublicKey
	// Kyma is the runtime's Kyma. It is zero if a version before 0.1.0 issued the certificate.
	Kyma             Kyma
	Thumbprint       string
	NotBefore        time.Time
	NotAfter         time.Time
	IssuerThumbprint string
}

// RenewAt returns the time when the agent requests a new certificate, which is after a third of the validity period.
func (c Certificate) RenewAt() time.Time { return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3) }

// Covers reports whether the certificate is valid at the given time. Because clocks differ, it accepts the certificate
// up to MaxClockSkew before the validity period starts.
func (c Certificate) Covers(now time.Time) bool {
	return !now.Before(c.NotBefore.Add(-MaxClockSkew)) && now.Before(c.NotAfter)
}

// CertificateValidity returns the validity period of a certificate without verifying the certificate.
func CertificateValidity(text string) (from, until time.Time, err error) {
	der, err := onePEM(text, pemCertificate)
	if err != nil {
		return from, until, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return from, until, fmt.Errorf("certificate: %w", err)
	}
	return parsed.NotBefore, parsed.NotAfter, nil
}

// CheckCertificate verifies that an enrollment key from the root of trust issued the certificate for this runtime, and
// returns the parsed certificate.
func (r Root) CheckCertificate(text, runtime string, now time.Time) (Certificate, error) {
	der, err := onePEM(text, pemCertificate)
	if err != nil {
		return Certificate{}, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	if !isSupported(parsed.PublicKey) {
		return Certificate{},
			fmt.Errorf("certificate: key type %T is not accepted, must be ECDSA P-256 or Ed25519", parsed.PublicKey)
	}
	certificate := Certificate{
		Key: parsed.PublicKey, Kyma: subjectKyma(parsed.Subject), NotBefore: parsed.NotBefore, NotAfter: parsed.NotAfter,
	}
	for thumbprint, key := range r.enrollers {
		issuer := x509.Certificate{PublicKey: key, PublicKeyAlgorithm: publicKeyAlgorithm(key)}
		if issuer.CheckSignature(parsed.SignatureAlgorithm, parsed.RawTBSCertificate, parsed.Signature) == nil {
			certificate.IssuerThumbprint = thumbprint
		}
	}
	if certificate.IssuerThumbprint == "" {
		return Certificate{},
			fmt.Errorf("certificate was not issued by an enrollment key of root version %d", r.Version)
	}
	name, err := runtimeURI(r.Fleet, runtime)
	if err != nil {
		return Certificate{}, err
	}
	if parsed.Subject.CommonName != runtime || len(parsed.URIs) != 1 || parsed.URIs[0].String() != name.String() {
		return Certificate{}, fmt.Errorf("certificate is for runtime %q, but this is runtime %q",
			parsed.Subject.CommonName, runtime)
	}
	if parsed.IsCA || len(parsed.UnhandledCriticalExtensions) > 0 {
		return Certificate{}, errors.New("certificate is not an agent's certificate")
	}
	if !certificate.Covers(now) {
		return Certificate{},
			fmt.Errorf("certificate is only valid from %s until %s", parsed.NotBefore.UTC().Format(time.RFC3339),
				parsed.NotAfter.UTC().Format(time.RFC3339))
	}
	if certificate.Thumbprint, err = Thumbprint(parsed.PublicKey); err != nil {
		return Certificate{}, err
	}
	if r.IsRevoked(certificate.Thumbprint) {
		return Certificate{}, fmt.Errorf("certificate: key %s is revoked", ShortThumbprint(certificate.Thumbprint))
	}
	return certificate, nil
}

func publicKeyAlgorithm(key crypto.PublicKey) x509.PublicKeyAlgorithm {
	if _, ok := key.(ed25519.PublicKey); ok {
		return x509.Ed25519
	}
	return x509.ECDSA
}
