package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

func hang(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush() //nolint:forcetypeassert // servers can flush
	<-r.Context().Done()
}

func endless(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, strings.Repeat("x", 64<<10)); err != nil {
			return
		}
	}
}

// halting sends the start of a response body, and then sends nothing more.
func halting(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, `{"queue":`)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestHTTPResponsesAreChecked(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		check fleet.HTTPCheck
		want  checks.Verdict
		text  string
	}{
		"default status": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusOK)
			}, fleet.HTTPCheck{}, checks.Success, "",
		},
		"unexpected status": {http.NotFound, fleet.HTTPCheck{}, checks.Failure, "the status is 404, must be 200"},
		"configured status": {
			http.NotFound, fleet.HTTPCheck{Status: 404}, checks.Success, "",
		},
		"path with a query": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.String() != "/healthz?full=1" || !strings.HasPrefix(r.Host, "app-") {
				http.Error(w, r.Host, http.StatusTeapot)
			}
		}, fleet.HTTPCheck{Path: "/healthz?full=1"}, checks.Success, ""},
		"redirect is not followed": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, fleet.HTTPCheck{}, checks.Failure, "the status is 302, must be 200"},
		"slow response": {func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(80 * time.Millisecond) //nolint:forbidigo // the latency is measured
			w.WriteHeader(http.StatusOK)
		}, fleet.HTTPCheck{MaxLatency: metav1.Duration{Duration: 20 * time.Millisecond}}, checks.Failure,
			"maxLatency is 20ms"},
		"response that exceeds the timeout": {hang, fleet.HTTPCheck{}, checks.Unknown, timedOut},
		"body that does not end":            {halting, fleet.HTTPCheck{}, checks.Unknown, timedOut},
		"endless response":                  {endless, fleet.HTTPCheck{}, checks.Unknown, "more than 1048576 bytes"},
		"true expression": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"queue":7,"load":0.5}`)
		},
			fleet.HTTPCheck{Expression: "body.queue < 100 && body.load < 1"}, checks.Success, ""},
		"false expression": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"queue":700}`)
		},
			fleet.HTTPCheck{Expression: "body.queue < 100"}, checks.Failure, "the expression is false"},
		"missing field": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) },
			fleet.HTTPCheck{Expression: "body.queue < 100"}, checks.Unknown, "no such key"},
		"result is not a boolean": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"queue":7}`)
		},
			fleet.HTTPCheck{Expression: "body.queue"}, checks.Unknown, "must return a boolean"},
		"response is not JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>\x1b[2J")
		},
			fleet.HTTPCheck{Expression: "true"}, checks.Unknown, "the response is not JSON"},
		"deeply nested JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("[", 100_000))
		}, fleet.HTTPCheck{Expression: "true"}, checks.Unknown, "the response is not JSON"},
		"large headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, fleet.HTTPCheck{}, checks.Unknown, "header"},
		"closed connection": {
			func(http.ResponseWriter, *http.Request) {
				panic(http.ErrAbortHandler)
			}, fleet.HTTPCheck{}, checks.Unknown, "EOF",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.check.Service = w.serve(c.serve)
			m := w.measure(fleet.Check{HTTP: &c.check, Timeout: timeoutFor(c.text)})
			require.Equal(t, c.want, m.Verdict, m.Message)
			require.Contains(t, m.Message, c.text)
			require.LessOrEqual(t, len(m.Message), bundle.MaxCheckMessageBytes)
			require.Equal(t, bundle.PrintableLine(m.Message), m.Message)
		})
	}
}

func TestEndpointsOutsideTheRuntimeAreRefused(t *testing.T) {
	w := newWorld(t)
	apiServer := w.apiServer[0]
	w.apiServer = append(w.apiServer, netip.MustParseAddrPort("192.0.2.1:6443"))
	for name, c := range map[string]struct {
		address string
		port    int32
		text    string
	}{
		"loopback address":                  {"127.0.0.1", 1, "it is a loopback address"},
		"metadata service":                  {"169.254.169.254", 80, "it is a link-local address"},
		"metadata service, IPv6":            {"fd00:ec2::254", 80, "it is a metadata service"},
		"metadata service of Alibaba Cloud": {"100.100.100.200", 80, "it is a metadata service"},
		"API server": {
			apiServer.Addr().String(), int32(apiServer.Port()), "it is a loopback address",
		},
		"API server outside this machine":    {"192.0.2.1", 6443, "it is the API server"},
		"unspecified address":                {"0.0.0.0", 80, "it is a loopback address"},
		"loopback address, IPv4-mapped":      {"::ffff:127.0.0.1", 80, "it is a loopback address"},
		"metadata service, NAT64":            {"64:ff9b::100.100.100.200", 80, "it is a metadata service"},
		"metadata service, IPv6 with a zone": {"fd00:ec2::254%lo", 80, "it is a metadata service"},
		"API server, NAT64":                  {"64:ff9b::192.0.2.1", 6443, "it is the API server"},
		"API server, local NAT64":            {"64:ff9b:1::192.0.2.1", 6443, "it is the API server"},
		"metadata service, local NAT64":      {"64:ff9b:1::169.254.169.254", 80, "it is a link-local address"},
		"metadata service, IPv4-translated":  {"::ffff:0:169.254.169.254", 80, "it is a link-local address"},
		"EKS Pod Identity, IPv6":             {"fd00:ec2::23", 80, "it is a metadata service"},
	} {
		t.Run(name, func(t *testing.T) {
			service := w.raw(c.address, c.port)
			m := w.measure(fleet.Check{HTTP: &fleet.HTTPCheck{Service: service}})
			require.Equal(t, checks.Unknown, m.Verdict)
			require.Contains(t, m.Message, c.text)
		})
	}
}

func TestAllAddressesOfTheAPIServerAreRefused(t *testing.T) {
	w := newWorld(t)
	var endpoints []discoveryv1.Endpoint
	for i := range 5 {
		address := fmt.Sprintf("192.0.2.%d", 10+i)
		ready := discoveryv1.EndpointConditions{Ready: ptr.To(i < 4)}
		endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: ready})
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, GenerateName: "probe-",
			Labels: map[string]string{discoveryv1.LabelServiceName: apiServerService},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To(int32(6443))}},
	}
	require.NoError(t, w.Create(t.Context(), slice))
	t.Cleanup(func() { require.NoError(t, w.Delete(context.Background(), slice)) })
	var service corev1.Service
	key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: apiServerService}
	require.NoError(t, w.Get(t.Context(), key, &service))
	for name, at := range map[string]struct {
		address string
		port    int32
	}{
		"first endpoint":             {"192.0.2.10", 6443},
		"fourth endpoint":            {"192.0.2.13", 6443},
		"endpoint that is not ready": {"192.0.2.14", 6443},
		"cluster IP of the Service":  {service.Spec.ClusterIP, service.Spec.Ports[0].Port},
		"endpoint, NAT64":            {"64:ff9b::c000:20d", 6443},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.measure(fleet.Check{HTTP: &fleet.HTTPCheck{Service: w.service(at.address, at.port)}})
			require.Equal(t, checks.Unknown, m.Verdict)
			require.Contains(t, m.Message, "refused: it is the API server")
		})
	}
}

// raw returns a Service whose address is already in the cache. The tests need the cache, because current API servers
// reject some of the addresses in an EndpointSlice.
func (w *world) raw(address string, port int32) fleet.ServiceReference {
	service := fleet.ServiceReference{Namespace: w.namespace, Name: "raw", Port: 80}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addresses[serviceURL(service)] = addresses{
		all:   []string{net.JoinHostPort(address, strconv.Itoa(int(port)))},
		until: time.Now().Add(time.Hour),
	}
	return service
}

func TestChecksOfServicesWithoutEndpointsAreUnknown(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "outside"},
		Spec: corev1.ServiceSpec{
			Type:         corev1.ServiceTypeExternalName,
			ExternalName: "example.org",
			Ports:        []corev1.ServicePort{{Port: 80}},
		},
	}))
	require.NoError(t, w.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "empty"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
	}))
	for text, service := range map[string]fleet.ServiceReference{
		"is of type ExternalName":      {Namespace: w.namespace, Name: "outside", Port: 80},
		"has no ready endpoint":        {Namespace: w.namespace, Name: "empty", Port: 80},
		"has no TCP port 81":           {Namespace: w.namespace, Name: "empty", Port: 81},
		`services "missing" not found`: {Namespace: w.namespace, Name: "missing", Port: 80},
	} {
		m := w.measure(fleet.Check{HTTP: &fleet.HTTPCheck{Service: service}})
		require.Equal(t, checks.Unknown, m.Verdict)
		require.Contains(t, m.Message, text)
	}
}

func TestChecksWithoutPermissionsAreUnknown(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Impersonate.UserName = "system:serviceaccount:default:nobody" })
	m := w.measure(fleet.Check{HTTP: &fleet.HTTPCheck{Service: w.serve(http.NotFound)}})
	require.Equal(t, checks.Unknown, m.Verdict)
	require.Contains(t, m.Message, "forbidden")
	m = w.measure(fleet.Check{CEL: &fleet.CELCheck{APIVersion: "v1", Kind: "ConfigMap", Expression: "true"}})
	require.Equal(t, checks.Unknown, m.Verdict)
	require.Contains(t, m.Message, "forbidden")
}

// The agent's chart binds the checks' account to the "view" role. In a test cluster, no controller adds the aggregated
// rules to this role. The test therefore uses the role "system:aggregate-to-view", which contains these rules.
func TestViewRoleIsEnoughForChecks(t *testing.T) {
	var user string
	w := newWorld(t, func(o *Options) {
		user = "reader-" + strconv.FormatInt(time.Now().UnixNano(), 36)
		o.Config.Impersonate.UserName = user
	})
	require.NoError(t, w.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	service := w.serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, check := range []fleet.Check{
		{HTTP: &fleet.HTTPCheck{Service: service}},
		{CEL: &fleet.CELCheck{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Expression: "true"}},
	} {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			m := w.measure(check)
			assert.Equal(c, checks.Success, m.Verdict, m.Message)
		}, 20*time.Second, 100*time.Millisecond)
	}
}

// Pods of the old version can still respond after the upgrade.
func TestUpgradeDropsTheAddressesOfTheOldVersion(t *testing.T) {
	w := newWorld(t)
	responds := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"version":"`+text+`"}`) }
	}
	app, next := w.serve(responds("old")), w.serve(responds("new"))
	check := fleet.Check{Name: "check", HTTP: &fleet.HTTPCheck{Service: app, Expression: "body.version == 'old'"}}
	require.NotEmpty(t, w.MeasureBefore(t.Context(), checks.Define([]fleet.Check{check}, nil, "")[0]))

	slice := func(name string) *discoveryv1.EndpointSlice {
		one := &discoveryv1.EndpointSlice{}
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, one))
		return one
	}
	moved := slice(app.Name)
	moved.Endpoints, moved.Ports = slice(next.Name).Endpoints, slice(next.Name).Ports
	require.NoError(t, w.Update(t.Context(), moved))
	check.HTTP.Expression = "body.version == 'new'"
	require.Equal(t, checks.Success, w.measure(check).Verdict)
}
