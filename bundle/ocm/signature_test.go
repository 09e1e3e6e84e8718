package ocm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

var pairs = sync.OnceValue(func() (keys [2]*rsa.PrivateKey) {
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[i] = key
	}
	return keys
})

var hashNames = map[string]crypto.Hash{
	"SHA-256": crypto.SHA256, "sha256": crypto.SHA256, "SHA-512": crypto.SHA512, "sha512": crypto.SHA512,
}

func sign(
	t *testing.T, d Descriptor, algorithm, hash string, key *rsa.PrivateKey, chain ...*x509.Certificate,
) Signature {
	t.Helper()
	value, err := DigestOf(d, NormalisationV3, hash)
	if err != nil {
		t.Fatal(err)
	}
	s := Signature{
		Name: "release", Algorithm: algorithm, MediaType: mediaTypeRSA,
		Digest: Digest{HashAlgorithm: hash, NormalisationAlgorithm: NormalisationV3, Value: value},
	}
	digest, err := hex.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	var made []byte
	if algorithm == AlgorithmPSS {
		s.MediaType = mediaTypePSS
		made, err = rsa.SignPSS(rand.Reader, key, hashNames[hash], digest, nil)
	} else {
		made, err = rsa.SignPKCS1v15(nil, key, hashNames[hash], digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Value = hex.EncodeToString(made)
	if chain == nil {
		return s
	}
	s.MediaType = mediaTypePEM
	s.Value = pemText(pemSignature, made, map[string]string{pemAlgorithmName: algorithm})
	for _, c := range chain {
		s.Value += pemText("CERTIFICATE", c.Raw, nil)
	}
	return s
}

func pemText(kind string, data []byte, headers map[string]string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data, Headers: headers}))
}

// certificate returns a certificate that is valid from 12 hours before noon until 12 hours after noon.
func certificate(
	t *testing.T, name string, key any, issuer *x509.Certificate, issuerKey any, change func(*x509.Certificate),
) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: noon.Add(-12 * time.Hour),
		NotAfter: noon.Add(12 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		BasicConstraintsValid: true,
	}
	if change != nil {
		change(template)
	}
	if issuer == nil {
		issuer, issuerKey = template, key
	}
	data, err := x509.CreateCertificate(rand.Reader, template, issuer, key.(crypto.Signer).Public(), issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func authority(c *x509.Certificate) {
	c.IsCA, c.KeyUsage, c.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
}

func ecdsaKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSignaturesWithATrustedKeyAreValid(t *testing.T) {
	trust := Trust{Keys: []*rsa.PublicKey{&pairs()[1].PublicKey, &pairs()[0].PublicKey}}
	for hash := range hashNames {
		for _, algorithm := range []string{AlgorithmPKCS1, AlgorithmPSS} {
			t.Run(algorithm+" "+hash, func(t *testing.T) {
				d := scaler(t)
				if err := d.CheckSignature(sign(t, d, algorithm, hash, pairs()[0]), trust, noon); err != nil {
					t.Error(err)
				}
				inPEM := sign(t, d, algorithm, hash, pairs()[0], []*x509.Certificate{}...)
				if err := d.CheckSignature(inPEM, trust, noon); err != nil || inPEM.MediaType != mediaTypePEM {
					t.Error(err)
				}
			})
		}
	}
}

func anotherDigit(digit string) string {
	if digit == "0" {
		return "1"
	}
	return "0"
}

func TestInvalidSignaturesAreRefused(t *testing.T) {
	trust := Trust{Keys: []*rsa.PublicKey{&pairs()[0].PublicKey}}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	bare := func(s *Signature, headers map[string]string) {
		value, err := hex.DecodeString(s.Value)
		if err != nil {
			t.Fatal(err)
		}
		s.MediaType, s.Value = mediaTypePEM, pemText(pemSignature, value, headers)
	}
	for name, c := range map[string]struct {
		change func(*Signature)
		trust  Trust
		want   string
	}{
		"changed signature value": {
			func(s *Signature) { s.Value = anotherDigit(s.Value[:1]) + s.Value[1:] }, trust, "not made by any",
		},
		"only another key trusted": {nil, Trust{Keys: []*rsa.PublicKey{&pairs()[1].PublicKey}}, "not made by any"},
		"no trusted key":           {nil, Trust{}, "no public key is trusted"},
		"weak key": {
			func(s *Signature) {
				*s = sign(t, scaler(t), AlgorithmPKCS1, "SHA-256", weak)
			}, Trust{Keys: []*rsa.PublicKey{&weak.PublicKey}}, "not made by any",
		},
		"signature with another algorithm": {
			func(s *Signature) { s.Algorithm, s.MediaType = AlgorithmPSS, mediaTypePSS }, trust, "not made by any",
		},
		"media type for another algorithm": {
			func(s *Signature) { s.Algorithm = AlgorithmPSS }, trust, "does not match algorithm RSASSA-PSS",
		},
		"unknown algorithm": {
			func(s *Signature) { s.Algorithm = "sigstore" }, trust, `algorithm "sigstore" is not supported`,
		},
		"unknown media type": {
			func(s *Signature) { s.MediaType = "text/plain" }, trust, `mediaType "text/plain"`,
		},
		"unknown hash": {
			func(s *Signature) { s.Digest.HashAlgorithm = "MD5" }, trust, `hash algorithm "MD5"`,
		},
		"digest with the length of another hash algorithm": {
			func(s *Signature) { s.Digest.HashAlgorithm = "SHA-512" }, trust, "is 32 bytes, must be 64",
		},
		"digest that is not hexadecimal": {
			func(s *Signature) { s.Digest.Value = "zz" }, trust, "digest.value",
		},
		"empty digest": {
			func(s *Signature) {
				s.Digest = Digest{excludedNoAlgorithm, excluded, excludedNoAlgorithm}
			}, trust, "digest.value",
		},
		"value that is not hexadecimal": {func(s *Signature) { s.Value = "zz" }, trust, "value: "},
		"value with an additional byte": {func(s *Signature) { s.Value += "00" }, trust, "not made by any"},
		"empty value":                   {func(s *Signature) { s.Value = "" }, trust, "not made by any"},
		"value longer than the limit": {
			func(s *Signature) {
				s.Value = strings.Repeat("0", maxSignatureBytes+2)
			}, trust, "value is 65538 bytes, must be at most 65536",
		},
		"PEM header with another algorithm": {
			func(s *Signature) {
				bare(s, map[string]string{pemAlgorithmName: AlgorithmPSS})
			}, trust, `the PEM header has "RSASSA-PSS"`,
		},
		"PEM without an algorithm": {
			func(s *Signature) { bare(s, nil) }, trust, `the PEM header has ""`,
		},
		"value that is not PEM": {
			func(s *Signature) { s.MediaType = mediaTypePEM }, trust, "does not begin with a PEM block of type SIGNATURE",
		},
		"text before the PEM block": {func(s *Signature) {
			bare(s, map[string]string{pemAlgorithmName: AlgorithmPKCS1})
			s.Value = "hello\n" + s.Value
		}, trust, "does not begin with"},
		"text after the PEM block": {func(s *Signature) {
			bare(s, map[string]string{pemAlgorithmName: AlgorithmPKCS1})
			s.Value += "hello\n"
		}, trust, "after the last PEM block"},
		"two signature blocks": {func(s *Signature) {
			bare(s, map[string]string{pemAlgorithmName: AlgorithmPKCS1})
			s.Value += s.Value
		}, trust, `found "SIGNATURE"`},
		"invalid certificate": {func(s *Signature) {
			bare(s, map[string]string{pemAlgorithmName: AlgorithmPKCS1})
			s.Value += pemText("CERTIFICATE", []byte("hello"), nil)
		}, trust, "value: certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sign(t, scaler(t), AlgorithmPKCS1, "SHA-256", pairs()[0])
			if c.change != nil {
				c.change(&s)
			}
			err := s.Verify(c.trust, noon)
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.HasPrefix(err.Error(), `signature "release": `) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestValidSignatureForAnotherDescriptorIsRefused(t *testing.T) {
	trust := Trust{Keys: []*rsa.PublicKey{&pairs()[0].PublicKey}}
	d := scaler(t)
	s := sign(t, d, AlgorithmPKCS1, "SHA-256", pairs()[0])
	d.Version = "1.11"
	if err := s.Verify(trust, noon); err != nil {
		t.Error(err)
	}
	if err := d.CheckSignature(s, trust, noon); err == nil ||
		!strings.Contains(err.Error(), "is for another descriptor") {
		t.Errorf("got error %v, want a signature for another descriptor", err)
	}
	s.Digest.NormalisationAlgorithm = "jsonNormalisation/v9"
	if err := d.CheckSignature(s, trust, noon); err == nil ||
		!strings.Contains(err.Error(), `"jsonNormalisation/v9" is not supported`) {
		t.Errorf("got error %v, want an unsupported normalization", err)
	}
}

func TestSignaturesWithCertificatesNeedATrustedAuthority(t *testing.T) {
	rootKey, middleKey, leafKey := ecdsaKey(t), pairs()[1], pairs()[0]
	root := certificate(t, "root", rootKey, nil, nil, authority)
	stranger := certificate(t, "stranger", ecdsaKey(t), nil, nil, authority)
	middle := certificate(t, "middle", middleKey, root, rootKey, authority)
	leaf := func(change func(*x509.Certificate)) *x509.Certificate {
		return certificate(t, "release", leafKey, middle, middleKey, change)
	}
	another := func(c *x509.Certificate) { c.Subject.CommonName = "ci" }
	chain := func(c ...*x509.Certificate) []*x509.Certificate { return c }
	trust := Trust{Roots: chain(root)}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	self := certificate(t, "release", leafKey, nil, nil, nil)
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		trust Trust
		now   time.Time
		want  string // part of the error; empty for success
	}{
		"leaf and intermediate":            {chain(leaf(nil), middle), trust, noon, ""},
		"leaf, intermediate and authority": {chain(leaf(nil), middle, root), trust, noon, ""},
		"intermediate pinned as authority": {chain(leaf(nil)), Trust{Roots: chain(middle)}, noon, ""},
		"configured subject": {
			chain(leaf(another), middle), Trust{Roots: chain(root), Subject: "ci"}, noon, "",
		},
		"key of the leaf is trusted": {
			chain(leaf(nil)), Trust{Keys: []*rsa.PublicKey{&leafKey.PublicKey}}, noon, "",
		},
		"self-signed certificate with a trusted key": {
			chain(self), Trust{Keys: []*rsa.PublicKey{&leafKey.PublicKey}}, noon, "",
		},
		"missing intermediate": {chain(leaf(nil)), trust, noon, "certificate of CN=release: x509: "},
		"certificate from another authority": {
			chain(leaf(nil), middle), Trust{Roots: chain(stranger)}, noon, "certificate of CN=release: x509: ",
		},
		"no trusted authority": {
			chain(leaf(nil), middle), Trust{Keys: []*rsa.PublicKey{&middleKey.PublicKey}}, noon,
			"no certificate authority is trusted",
		},
		"expired certificate": {chain(leaf(nil), middle), trust, noon.Add(13 * time.Hour), "expired"},
		"certificate that is not valid yet": {
			chain(leaf(nil), middle), trust, noon.Add(-13 * time.Hour), "not yet valid",
		},
		"subject differs from the signature's name": {
			chain(leaf(func(c *x509.Certificate) { c.Subject.CommonName = "release2" }), middle), trust, noon,
			`certificate has subject "release2", must be "release"`,
		},
		"subject differs from the configured one": {
			chain(leaf(nil), middle), Trust{Roots: chain(root), Subject: "ci"}, noon,
			`certificate has subject "release", must be "ci"`,
		},
		"TLS server certificate": {
			chain(leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
				middle), trust, noon,
			"incompatible key usage"},
		"certificate not for signatures": {
			chain(leaf(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }), middle), trust, noon,
			"does not allow digital signatures",
		},
		"untrusted authority in the signature": {
			chain(leaf(nil), middle, stranger), trust, noon, "certificate of CN=stranger is self-signed",
		},
		"self-signed certificate": {chain(self), trust, noon, "certificate of CN=release is self-signed"},
		"self-signed certificate pinned as authority": {
			chain(self), Trust{Roots: chain(self)}, noon, "certificate of CN=release is self-signed",
		},
		"leaf that signs another leaf": {
			chain(certificate(t, "release", leafKey, leaf(another), leafKey, nil), leaf(another), middle), trust, noon,
			"x509: ",
		},
		"elliptic key": {
			chain(certificate(t, "release", rootKey, root, rootKey, nil)), trust, noon, "must be RSA",
		},
		"intermediate with a weak key": {
			chain(leaf(nil), certificate(t, "middle", weak, root, rootKey, authority)), trust, noon,
			"RSA key of 1024 bits is too weak",
		},
		"more certificates than the limit": {
			append(chain(leaf(nil)), chain(middle, middle, middle, middle, middle, middle, middle, middle)...), trust,
			noon, "at most 8 CERTIFICATE blocks",
		},
		"certificate with another key": {
			chain(certificate(t, "release", middleKey, root, rootKey, nil)), trust, noon, "not made by any",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, algorithm := range []string{AlgorithmPKCS1, AlgorithmPSS} {
				d := scaler(t)
				err := d.CheckSignature(sign(t, d, algorithm, "SHA-256", leafKey, c.chain...), c.trust, c.now)
				if c.want == "" && err != nil || c.want != "" &&
					(err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%s: got %v, want %q", algorithm, err, c.want)
				}
			}
		})
	}
}

func TestParseTrustRefusesInvalidKeys(t *testing.T) {
	key := &pairs()[0].PublicKey
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	elliptic := ecdsaKey(t)
	ellipticDER, err := x509.MarshalPKIXPublicKey(elliptic.Public())
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(pairs()[0])
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	long := &rsa.PublicKey{N: new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), maxKeyBits), big.NewInt(1)), E: 65537}
	public := pemText("PUBLIC KEY", der, nil)
	root := pemText("CERTIFICATE", certificate(t, "root", elliptic, nil, nil, authority).Raw, nil)
	for name, c := range map[string]struct {
		in          string
		keys, roots int
		want        string // part of the error; empty for success
	}{
		"public key":             {public, 1, 0, ""},
		"PKCS #1 public key":     {pemText("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(key), nil), 1, 0, ""},
		"public key in DER":      {string(der), 1, 0, ""},
		"keys and certificates":  {public + root + public, 2, 1, ""},
		"text around the blocks": {"our key\n" + public + "\n\n", 1, 0, ""},
		"maximum number of keys": {strings.Repeat(public, maxTrusted), maxTrusted, 0, ""},
		"empty input":            {"", 0, 0, "must contain a PEM block"},
		"text that is not PEM":   {"hello", 0, 0, "must contain a PEM block"},
		"private key":            {pemText("PRIVATE KEY", private, nil), 0, 0, "contains a private key"},
		"PKCS #1 private key":    {pemText("RSA PRIVATE KEY", nil, nil), 0, 0, "contains a private key"},
		"private key in DER":     {string(private), 0, 0, "contains a private key"},
		"PKCS #1 private key in DER": {
			string(x509.MarshalPKCS1PrivateKey(pairs()[0])), 0, 0, "contains a private key",
		},
		"private key after a public key": {
			public + pemText("EC PRIVATE KEY", nil, nil), 0, 0, "contains a private key",
		},
		"elliptic key":        {pemText("PUBLIC KEY", ellipticDER, nil), 0, 0, "must be RSA"},
		"elliptic key in DER": {string(ellipticDER), 0, 0, "must be RSA"},
		"weak key": {
			pemText("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&weak.PublicKey), nil), 0, 0, "1024 bits is too weak",
		},
		"authority with a weak key": {
			pemText("CERTIFICATE", certificate(t, "root", weak, nil, nil, authority).Raw, nil), 0, 0,
			"1024 bits is too weak",
		},
		"key longer than the limit": {
			pemText("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(long), nil), 0, 0, "8193 bits is too long",
		},
		"invalid public key":          {pemText("PUBLIC KEY", []byte("x"), nil), 0, 0, "PUBLIC KEY: "},
		"invalid certificate block":   {pemText("CERTIFICATE", []byte("x"), nil), 0, 0, "CERTIFICATE: "},
		"block of another type":       {pemText("SIGNATURE", []byte("x"), nil), 0, 0, `block "SIGNATURE" is neither`},
		"text after the last block":   {public + "hello", 0, 0, "data after the last PEM block"},
		"more keys than the limit":    {strings.Repeat(public, maxTrusted+1), 0, 0, "more than 100"},
		"input larger than the limit": {strings.Repeat(" ", maxTrustBytes+1), 0, 0, "larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTrust([]byte(c.in))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if len(got.Keys) != c.keys || len(got.Roots) != c.roots {
				t.Errorf("got %d keys and %d authorities, want %d and %d", len(got.Keys), len(got.Roots), c.keys,
					c.roots)
			}
		})
	}
}
