package store

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func newAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func tlsRegistry(t *testing.T) (host string, authority []byte) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	return strings.TrimPrefix(server.URL, "https://"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func trusts(t *testing.T, registries *Registries, host string) bool {
	t.Helper()
	repository, err := registries.Repository(host + "/fleet/content")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Head(t.Context(), repository, "latest")
	switch {
	case errors.Is(err, ErrNotFound):
		return true
	case err != nil && strings.Contains(err.Error(), "unknown authority"):
		return false
	}
	t.Fatalf("HEAD: %v", err)
	return false
}

func TestAnnouncedCAIsTrustedUntilWithdrawn(t *testing.T) {
	host, authority := tlsRegistry(t)
	registries, err := NewRegistries(Access{NoRetry: true, CA: newAuthority(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name      string
		announced []byte
		want      bool
	}{
		{"no announced CA", nil, false},
		{"announced CA", authority, true},
		{"two announced CAs", append(newAuthority(t), authority...), true},
		{"announced CA is withdrawn", nil, false},
	} {
		if err := registries.TrustAlso(step.announced); err != nil {
			t.Fatal(err)
		}
		if got := trusts(t, registries, host); got != step.want {
			t.Errorf("%s: got trusted %t, want %t", step.name, got, step.want)
		}
	}
	if err := registries.TrustAlso([]byte("hello")); err == nil {
		t.Error("text without a certificate: got no error, want an error")
	}
}

func TestChangedCredentialsAndAuthoritiesAreReloaded(t *testing.T) {
	host, authority := tlsRegistry(t)
	config := func(password string) []byte {
		return fmt.Appendf(nil, `{"auths":{%q:{"username":"one","password":%q}}}`, host, password)
	}
	now := time.Now()
	var renewed Access
	var failure error
	registries, err := NewRegistries(Access{
		NoRetry: true, CA: newAuthority(t), DockerConfig: config("old"),
		Renew: func() (Access, error) { return renewed, failure },
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, password string, trusted bool) {
		t.Helper()
		found, err := registries.credential(t.Context(), host)
		if err != nil || found.Password != password {
			t.Errorf("%s: got password %q, error %v, want %q", name, found.Password, err, password)
		}
		if got := trusts(t, registries, host); got != trusted {
			t.Errorf("%s: got trusted %t, want %t", name, got, trusted)
		}
	}
	renewed = Access{CA: authority, DockerConfig: config("new")}
	registries.renew(now)
	check("too early", "old", false)
	now = now.Add(2 * renewEvery)
	failure = errors.New("file is missing")
	registries.renew(now)
	check("a file is missing", "old", false)
	failure, now = nil, now.Add(2*renewEvery)
	registries.renew(now)
	check("new files", "new", true)
	renewed, now = Access{CA: []byte("incompl"), DockerConfig: []byte("{")}, now.Add(2*renewEvery)
	registries.renew(now)
	check("incomplete files", "new", true)
}

func TestNextRegistryUsesCredentialsOfCurrentRegistry(t *testing.T) {
	registries, err := NewRegistries(Access{DockerConfig: []byte(
		`{"auths":{"old.example":{"username":"one","password":"a"},"own.example":{"username":"two","password":"b"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	registries.ShareCredentials("old.example", "earlier.example")
	registries.ShareCredentials("old.example", "new.example:5000", "own.example")
	for host, want := range map[string]string{
		"old.example": "one", "new.example:5000": "one", "own.example": "two", "other.example": "",
		"earlier.example": "",
	} {
		if found, err := registries.credential(t.Context(), host); err != nil || found.Username != want {
			t.Errorf("%s: user %q, %v, want %q", host, found.Username, err, want)
		}
	}
}
