package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// serveChecks starts a server for http and promql checks, and creates a Service with its address in the runtime.
func serveChecks(ctx context.Context, runtime client.Client) (v1alpha1.ServiceReference, func(), error) {
	none := v1alpha1.ServiceReference{}
	address, err := ownAddress()
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
	_, text, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		stop()
		return none, nil, err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err == nil {
		err = createService(ctx, runtime, address, int32(port))
	}
	if err != nil {
		stop()
		return none, nil, err
	}
	return v1alpha1.ServiceReference{Namespace: metav1.NamespaceDefault, Name: checkService, Port: 80}, stop, nil
}

const checkService = "checked"

func createService(ctx context.Context, runtime client.Client, address string, port int32) error {
	meta := metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: checkService,
		Labels: map[string]string{discoveryv1.LabelServiceName: checkService},
	}
	return errors.Join(
		runtime.Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "web", Port: 80}},
		}}),
		runtime.Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
			Ports:     []discoveryv1.EndpointPort{{Name: new("web"), Port: &port}},
		}),
	)
}

// ownAddress returns an IPv4 address of this machine. EndpointSlices cannot contain loopback addresses.
func ownAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if prefix, ok := a.(*net.IPNet); ok && prefix.IP.To4() != nil && prefix.IP.IsGlobalUnicast() {
			return prefix.IP.String(), nil
		}
	}
	return "", errors.New("no IPv4 address other than loopback exists")
}
