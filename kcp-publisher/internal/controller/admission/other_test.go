package admission

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// newRegistration returns the registration of a publisher in a namespace. The test calls its method register.
func newRegistration(t *testing.T, api client.Client, options Options) *registration {
	t.Helper()
	hosts, at, err := options.webhookAddress()
	if err != nil {
		t.Fatal(err)
	}
	return &registration{clientConfig: at, certificates: &certificates{
		client: api, namespace: options.Namespace, hosts: hosts, now: time.Now,
	}}
}

func newService(t *testing.T, api client.Client, namespace, name string) *corev1.Service {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	if err := api.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	return service
}

// checkServer compares the server that the API server uses to convert Kymas, and returns the generation of the CRD.
func checkServer(t *testing.T, api client.Client, want string) int64 {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	if err := api.Get(t.Context(), client.ObjectKey{Name: "kymas." + v1beta2.Group}, crd); err != nil {
		t.Fatal(err)
	}
	config, _, err := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig")
	if err != nil {
		t.Fatal(err)
	}
	if got := serverOf(config).String(); got != want {
		t.Errorf("got server %s, want %s", got, want)
	}
	return crd.GetGeneration()
}

func mustRegister(t *testing.T, r *registration, want string) {
	t.Helper()
	other, err := r.register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if other != (server{}) && other.String() != want || other == (server{}) && want != "" {
		t.Errorf("got other publisher %q, want %q", other, want)
	}
}

func TestOnePublisherAtATimeRegistersWebhooks(t *testing.T) {
	api := startAPIServer(t).api
	for _, namespace := range []string{"a", "b"} {
		if err := api.Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
	}
	// A publisher replaces lifecycle-manager's registration.
	newService(t, api, "a", "klm")
	klm := newRegistration(t, api, Options{Namespace: "a", Service: "a/klm"})
	if err := klm.registerConversion(t.Context(), "kymas."+v1beta2.Group, nil); err != nil {
		t.Fatal(err)
	}
	checkServer(t, api, "Service a/klm")
	one := newRegistration(t, api, Options{Namespace: "a", Service: "a/x:443"})
	// These publishers are in other namespaces, in the same namespace, and outside the control plane.
	others := []*registration{
		newRegistration(t, api, Options{Namespace: "b", Service: "b/y"}),
		newRegistration(t, api, Options{Namespace: "a", Service: "a/z"}),
		newRegistration(t, api, Options{Namespace: "b", URL: "https://127.0.0.1:1"}),
	}
	service := newService(t, api, "a", "x")
	newService(t, api, "b", "y")
	newService(t, api, "a", "z")

	mustRegister(t, one, "")
	generation := checkServer(t, api, "Service a/x")
	for range 3 {
		for _, r := range others {
			mustRegister(t, r, "Service a/x")
		}
		mustRegister(t, one, "")
	}
	if got := checkServer(t, api, "Service a/x"); got != generation {
		t.Errorf("got %d changes of the CRD, want none", got-generation)
	}
	// The publisher a/x was uninstalled.
	if err := api.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	mustRegister(t, others[1], "")
	checkServer(t, api, "Service a/z")
	mustRegister(t, others[0], "Service a/z")
	newService(t, api, "a", "x")
	mustRegister(t, one, "Service a/z")
	checkServer(t, api, "Service a/z")
}

func TestURLExistsWhileItsPublisherResponds(t *testing.T) {
	data, _, err := renewData(nil, []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(data[keyCert], data[keyKey])
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.(*tls.Conn).Handshake()
			_ = connection.Close()
		}
	}()
	address := "https://" + listener.Addr().(*net.TCPAddr).String() + "/convert"
	foreign, _, err := renewData(nil, []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if !responds(t.Context(), address, data[keyCA]) {
		t.Error("a running publisher does not respond")
	}
	if responds(t.Context(), address, foreign[keyCA]) {
		t.Error("a server with a certificate from another CA counts as the publisher")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if responds(t.Context(), address, data[keyCA]) {
		t.Error("a stopped publisher responds")
	}
}

func TestRepeatedChangesAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		changed, checks := make(chan struct{}, 1), 0
		repeat(ctx, changed, func() time.Duration {
			if checks++; checks == 100 {
				stop()
			}
			changed <- struct{}{} // another client overwrites each change
			return checkInterval
		})
		if want := int(time.Minute / minInterval); checks != want && checks != want+1 {
			t.Errorf("got %d checks in a minute, want %d", checks, want)
		}
	})
}

func TestFailedRegistrationIsRetriedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		checks := 0
		repeat(ctx, nil, func() time.Duration { checks++; return time.Second })
		if checks < 59 {
			t.Errorf("got %d checks in a minute, want one per second", checks)
		}
	})
}
