package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// serveChecks starts a server for http and promql checks, and creates a Service with its address in the runtime.
func serveChecks(ctx context.Context, runtime client.Client) (v1alpha1.ServiceReference, func(), error) {
	none := v1alpha1.ServiceReference{}
	address, err := fleet.OwnAddress()
	if err != nil {
		return none, nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return none, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"queue":7}`) })
	mux.HandleFunc("/api/v1/query", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},`+
			`"value":[1700000000,"0.2"]}]}}`)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	stop := func() { _ = server.Close() }
	service := v1alpha1.ServiceReference{Namespace: metav1.NamespaceDefault, Name: "checked", Port: 80}
	endpoint, err := netip.ParseAddrPort(listener.Addr().String())
	if err == nil {
		key := client.ObjectKey{Namespace: service.Namespace, Name: service.Name}
		err = fleet.ExposeEndpoint(ctx, runtime, key, service.Port, endpoint)
	}
	if err != nil {
		stop()
		return none, nil, err
	}
	return service, stop, nil
}
