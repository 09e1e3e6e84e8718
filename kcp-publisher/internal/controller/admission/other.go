package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// server is the destination of a webhook's requests. It contains either a Service or a URL.
type server struct {
	service client.ObjectKey
	url     string
}

func (s server) String() string {
	if s.url != "" {
		return s.url
	}
	return "Service " + s.service.String()
}

// serverOf returns the server in a webhook's field clientConfig.
func serverOf(clientConfig map[string]any) server {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(clientConfig, fields...)
		return value
	}
	return server{
		service: client.ObjectKey{Namespace: text("service", "namespace"), Name: text("service", "name")},
		url:     text("url"),
	}
}

// otherServer returns the server of another publisher if the conversion of Kymas uses it and it still exists.
// Otherwise, it returns the zero value, and this publisher registers its own webhooks.
//
// All publishers decide by the same object, so at most one of them writes the registration. A publisher recognizes
// another publisher's registration by the name of its CA, and replaces the registrations of other programs.
func (r *registration) otherServer(ctx context.Context) (server, error) {
	crd, name := &unstructured.Unstructured{}, convertedResources[0]+"."+v1beta2.Group
	crd.SetGroupVersionKind(crdKind)
	if err := r.certificates.client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return server{}, fmt.Errorf("read %s %s: %w", crdKind.Kind, name, err)
	}
	config, _, err := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig")
	if err != nil {
		return server{}, fmt.Errorf("read %s %s: %w", crdKind.Kind, name, err)
	}
	registered := serverOf(config)
	bundle, _, _ := unstructured.NestedString(config, "caBundle")
	authorities, err := base64.StdEncoding.DecodeString(bundle)
	if err != nil || registered == serverOf(r.clientConfig(pathConvert, nil)) || !isFromPublisher(authorities) {
		return server{}, nil
	}
	exists, err := r.exists(ctx, registered, authorities)
	if err != nil {
		return server{}, fmt.Errorf("check the other publisher that serves the webhooks: %w", err)
	}
	if !exists {
		return server{}, nil
	}
	return registered, nil
}

// exists reports whether a Service exists, or whether a TLS server with a certificate from the CA responds at a URL.
func (r *registration) exists(ctx context.Context, s server, authorities []byte) (bool, error) {
	if s.url != "" {
		return responds(ctx, s.url, authorities), nil
	}
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	err := r.certificates.client.Get(ctx, s.service, service)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", s, err)
	}
	return true, nil
}

func responds(ctx context.Context, address string, authorities []byte) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	port := parsed.Port()
	if port == "" {
		port = "443"
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{}, Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(parsed.Hostname(), port))
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}

// isFromPublisher reports whether a publisher created the CA.
func isFromPublisher(authorities []byte) bool {
	block, _ := pem.Decode(authorities)
	if block == nil {
		return false
	}
	c, err := x509.ParseCertificate(block.Bytes)
	return err == nil && c.Subject.CommonName == authorityName
}
