package publicmodules

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	stdlog "log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// server serves all modules' webhooks and aggregated APIs. It allows all requests.
type server struct {
	address netip.AddrPort
	ca      []byte // PEM

	mu      sync.Mutex // guards issued
	issued  map[string]*tls.Certificate
	key     *ecdsa.PrivateKey
	trusted *x509.Certificate
}

// startServer starts a server that ends with the test.
func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{issued: map[string]*tls.Certificate{}}
	var err error
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := certificate("modules")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, s.key.Public(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	if s.trusted, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	own, err := fleet.OwnAddress()
	if err != nil {
		t.Skip(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(own, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s.address = netip.MustParseAddrPort(listener.Addr().String())
	web := &http.Server{
		Handler: http.HandlerFunc(respond), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{GetCertificate: s.certificateFor, MinVersion: tls.VersionTLS12},
		// Until the CA is injected, the API server refuses the certificates.
		ErrorLog: stdlog.New(io.Discard, "", 0),
	}
	go func() { _ = web.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = web.Shutdown(context.WithoutCancel(t.Context())) })
	return s
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// certificateFor returns a certificate for the Service that the client addresses.
func (s *server) certificateFor(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.issued[hello.ServerName]; known != nil {
		return known, nil
	}
	template := certificate(hello.ServerName)
	template.DNSNames = []string{hello.ServerName}
	der, err := x509.CreateCertificate(rand.Reader, template, s.trusted, s.key.Public(), s.key)
	if err != nil {
		return nil, err
	}
	s.issued[hello.ServerName] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: s.key}
	return s.issued[hello.ServerName], nil
}

// respond allows admission webhook requests, converts objects to the wanted version without other changes, and serves
// discovery for an aggregated API.
func respond(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if request.Method == http.MethodGet {
		respondAPI(w, request)
		return
	}
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := map[string]any{"uid": review.Request.UID, "allowed": true}
	if review.Kind == "ConversionReview" {
		for _, o := range review.Request.Objects {
			o["apiVersion"] = review.Request.DesiredAPIVersion
		}
		response = map[string]any{"uid": review.Request.UID, "convertedObjects": review.Request.Objects,
			"result": map[string]any{"status": "Success"}}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": review.APIVersion, "kind": review.Kind, "response": response,
	})
}

// respondAPI serves an aggregated API without resources.
func respondAPI(w http.ResponseWriter, request *http.Request) {
	version, isAPI := strings.CutPrefix(strings.TrimSuffix(request.URL.Path, "/"), "/apis/")
	if !isAPI || strings.Count(version, "/") != 1 {
		http.NotFound(w, request)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version, "resources": []any{},
	})
}
