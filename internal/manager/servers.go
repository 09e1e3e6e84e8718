package manager

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"github.com/fluxcd/pkg/runtime/pprof"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/internal/serve"
)

// Authenticate returns a filter for the metrics server. The filter accepts a request only if the API server
// authenticates and authorizes the client.
type Authenticate func(*rest.Config, *http.Client) (metricsserver.Filter, error)

// maxScrapes limits concurrent scrapes, because each needs memory for all metrics.
const maxScrapes = 5

// addServers adds the servers for metrics and probes. They limit connections and requests, unlike controller-runtime's
// servers.
func (f *Flags) addServers(mgr ctrl.Manager, config *rest.Config) error {
	if f.metricsAddress != "0" && f.metricsAddress != "" {
		if err := f.addMetrics(mgr, config); err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
	}
	if f.probeAddress == "0" || f.probeAddress == "" {
		return nil
	}
	probes := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		checks := http.StripPrefix(path, &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}})
		probes.Handle(path, checks)
		probes.Handle(path+"/", checks)
	}
	return serve.Add(mgr, "health probes", f.probeAddress, nil, probes, serve.Small)
}

func (f *Flags) addMetrics(mgr ctrl.Manager, config *rest.Config) error {
	if err := measure.GoRuntime(f.goMetrics); err != nil {
		return err
	}
	handlers := map[string]http.Handler{
		"/metrics": promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{
			ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes,
		}),
	}
	if f.pprof {
		for path, handler := range pprof.GetHandlers() {
			handlers[path] = handler
		}
	}
	var secure *tls.Config
	filter := func(handler http.Handler) (http.Handler, error) { return handler, nil }
	if f.metricsAuth {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		authenticated, err := f.authenticate(config, client)
		if err != nil {
			return err
		}
		filter = func(handler http.Handler) (http.Handler, error) {
			return authenticated(ctrl.Log.WithName("metrics"), handler)
		}
		if secure, err = selfSigned(); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	for path, handler := range handlers {
		filtered, err := filter(handler)
		if err != nil {
			return err
		}
		mux.Handle(path, filtered)
	}
	return serve.Add(mgr, "metrics", f.metricsAddress, secure, mux, serve.Small)
}

// selfSigned returns a TLS configuration with a self-signed certificate. TLS protects the scraper's token from passive
// observers.
func selfSigned() (*tls.Config, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{{127, 0, 0, 1}}, nil)
	if err != nil {
		return nil, fmt.Errorf("create a self-signed certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, err
}
