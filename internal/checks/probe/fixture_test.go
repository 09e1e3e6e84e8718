package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// server is the API server for all tests in the package. It is nil if kube-apiserver is not installed.
var server *lender.Server

func TestMain(m *testing.M) {
	code, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		code = 1
	}
	os.Exit(code)
}

func withServer(run func() int) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return run(), nil
	}
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Configure().Set("disable-admission-plugins", "ServiceAccount")
	if server, err = lender.Start(context.Background(), env); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	return run(), nil
}

type world struct {
	*testing.T
	client.Client
	*Prober
	namespace string
}

func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	if server == nil {
		t.Skip("needs a kube-apiserver: KUBEBUILDER_ASSETS is not set")
	}
	c, err := client.New(server.Config, client.Options{})
	require.NoError(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}
	require.NoError(t, c.Create(t.Context(), namespace))
	options := Options{Config: rest.CopyConfig(server.Config)}
	for _, f := range change {
		f(&options)
	}
	p, err := New(options)
	require.NoError(t, err)
	return &world{t, c, p, namespace.Name}
}

// serve starts an HTTP server and creates a Service with its address.
func (w *world) serve(handler http.HandlerFunc) fleet.ServiceReference {
	w.Helper()
	endpoint := httptest.NewUnstartedServer(handler)
	require.NoError(w, endpoint.Listener.Close())
	var err error
	endpoint.Listener, err = net.Listen("tcp", net.JoinHostPort(ownAddress(w.T), "0"))
	require.NoError(w, err)
	endpoint.Start()
	w.Cleanup(endpoint.Close)
	host, port, err := net.SplitHostPort(endpoint.Listener.Addr().String())
	require.NoError(w, err)
	number, err := strconv.Atoi(port)
	require.NoError(w, err)
	return w.service(host, int32(number)) //nolint:gosec // a port
}

// ownAddress returns one of this machine's addresses that is valid in an EndpointSlice.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if prefix, ok := a.(*net.IPNet); ok && prefix.IP.To4() != nil && prefix.IP.IsGlobalUnicast() {
			return prefix.IP.String()
		}
	}
	t.Skip("needs an IPv4 address other than loopback, because EndpointSlices cannot contain loopback addresses")
	return ""
}

func (w *world) service(address string, port int32) fleet.ServiceReference {
	w.Helper()
	name := "app-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	require.NoError(w, w.Create(w.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Ports:     []corev1.ServicePort{{Name: "web", Port: 80}},
		},
	}))
	kind := discoveryv1.AddressTypeIPv4
	if ip := net.ParseIP(address); ip.To4() == nil {
		kind = discoveryv1.AddressTypeIPv6
	}
	require.NoError(w, w.Create(w.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace,
			Name:      name,
			Labels:    map[string]string{discoveryv1.LabelServiceName: name},
		},
		AddressType: kind,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("web"), Port: &port}},
	}))
	return fleet.ServiceReference{Namespace: w.namespace, Name: name, Port: 80}
}

func (w *world) measure(c fleet.Check) checks.Measurement {
	w.Helper()
	if c.Timeout.Duration == 0 {
		c.Timeout.Duration = time.Minute // long enough for a busy machine
	}
	c.Name = "check"
	subject := Subject{Module: "keda", Version: "1.0.0"}
	return w.Measure(w.Context(), subject, checks.Define([]fleet.Check{c}, nil, "")[0], "")
}

const timedOut = "did not end within 2s"

// timeoutFor returns a short timeout for a check that must time out, and the default for all other checks.
func timeoutFor(message string) metav1.Duration {
	if message == timedOut {
		return metav1.Duration{Duration: 2 * time.Second}
	}
	return metav1.Duration{}
}
