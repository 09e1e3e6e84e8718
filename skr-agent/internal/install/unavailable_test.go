package install

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// outage is a RoundTripper that returns status 503 for an API group, as the API server does for an aggregated API
// without a server.
type outage struct {
	http.RoundTripper
	group string
	ends  *atomic.Bool
}

func (d outage) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.ends.Load() || !strings.HasPrefix(r.URL.Path, "/apis/"+d.group+"/v1/") {
		return d.RoundTripper.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Request: r, Header: http.Header{"Content-Type": {"text/plain"}},
		Body: io.NopCloser(strings.NewReader("service unavailable")),
	}, nil
}

func TestUnavailableAPIDoesNotBlockRepairOrRemoval(t *testing.T) {
	const group = "outage.example.org"
	w := newWorld(t)
	api := crdOf("Metric", group)
	objects := customText("Metric", group, "a") + customText("Metric", group, "b")
	w.wants("api", api+objects+aConfigMap("server"), version("1.0.0"))
	w.state("api", v1beta2.StateReady, "")
	w.wants("uses", strings.ReplaceAll(objects, "metadata: {name: ", "metadata: {name: uses-")+aConfigMap("uses"))
	w.state("uses", v1beta2.StateReady, "")
	w.wants("default", aConfigMap("default"), func(m *v1beta2.Manifest) {
		m.Spec.Resource = custom(group+"/v1", "Metric", home, "default")
		m.Spec.CustomResourcePolicy = v1beta2.PolicyCreateAndDelete
	})
	w.state("default", v1beta2.StateReady, "")

	t.Log("after a restart, the status reports that the API does not respond, and a new version is applied")
	var ends atomic.Bool
	w.halt()
	w.config.Wrap(func(to http.RoundTripper) http.RoundTripper { return outage{to, group, &ends} })
	w.start()
	w.state("default", v1beta2.StateProcessing, "check the server of APIService v1."+group)
	w.wants("api", api+objects+aConfigMap("server")+aConfigMap("repair"), version("2.0.0"))
	w.eventually("the repair is applied", func() bool { return w.exists(&corev1.ConfigMap{}, home, "repair") })
	w.state("api", v1beta2.StateProcessing, "check the server of APIService v1."+group)

	t.Log("a removal reports the objects that cannot be read")
	w.remove("uses")
	w.state("uses", v1beta2.StateDeleting, "check the server of APIService v1."+group)

	ends.Store(true)
	w.state("api", v1beta2.StateReady, "")
	w.state("default", v1beta2.StateReady, "")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "uses") })
	require.True(t, w.exists(custom(group+"/v1", "Metric", home, "a"), home, "a"))
}
