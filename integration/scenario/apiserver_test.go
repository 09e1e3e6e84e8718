package scenario

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// faultyProxy is a proxy to an API server. It responds to each request with the configured status code. If the status
// is 0, it forwards requests. If the status is negative, it closes the connection.
type faultyProxy struct {
	*httptest.Server
	status atomic.Int64
}

func startFaulty(t *testing.T, kubeconfig string) *faultyProxy {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	// The proxy forwards the client's own token.
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	must(t, err)
	through := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	f := &faultyProxy{}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch status := f.status.Load(); {
		case status < 0:
			panic(http.ErrAbortHandler)
		case status > 0:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(status))
			_, _ = fmt.Fprintf(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"fault %d","code":%d}`, status, status)
		default:
			through.ServeHTTP(w, r)
		}
	}))
	return f
}

func TestAgentWaitsForItsAPIServerAndToken(t *testing.T) {
	suite.Long(t)
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	must(t, r.Agent().Stop())

	// This ServiceAccount's token becomes invalid when its Secret is deleted.
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent"},
	}
	must(t, client.IgnoreAlreadyExists(r.API.Create(ctx, account)))
	must(t, r.API.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "the-agent"}, RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin",
		},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent"},
		},
	}))
	file := filepath.Join(t.TempDir(), "token")
	renew := func(holder string) *corev1.Secret {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: holder}}
		must(t, r.API.Create(ctx, secret))
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Secret", Name: holder, UID: secret.UID,
			},
		}}
		must(t, r.API.SubResource("token").Create(ctx, account, request))
		must(t, os.WriteFile(file, []byte(request.Status.Token), 0o600))
		return secret
	}
	first := renew("first")
	api := startFaulty(t, r.Kubeconfig())
	t.Cleanup(func() {
		_ = r.Agent().Kill() // the agent's open watches would prevent the server from closing
		api.CloseClientConnections()
		api.Close()
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: api.Certificate().Raw,
	}))
	must(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {tokenFile: %q}}]}`, api.URL, authority, file), 0o600))

	api.status.Store(-1)
	config, err := settings(ctx, r)
	must(t, err)
	must(t, r.API.Delete(ctx, config))
	r.AgentFlags = append(r.AgentFlags, "--kubeconfig="+kubeconfig)
	must(t, r.StartAgent())
	const waits = "cannot start yet"
	for n, fault := range []int64{-1, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable} {
		api.status.Store(fault)
		until(t, time.Minute, fmt.Sprintf("the agent logs that it waits after fault %d", fault), func() (bool, string) {
			return strings.Count(r.Agent().Log(), waits) > n, r.Agent().Log()
		})
	}
	count := strings.Count(r.Agent().Log(), waits)
	api.status.Store(0)
	until(t, time.Minute, "the agent recreates the deleted object", func() (bool, string) {
		_, err := settings(ctx, r)
		return err == nil, fmt.Sprint(err)
	})
	if !running(r.Agent()) || count > 8 {
		t.Errorf("agent is running: %t, want true; wait reason was logged %d times, want 1", running(r.Agent()), count)
	}

	// The token becomes invalid while the agent runs. The agent must read the next token from the file, which the
	// kubelet renews in a Pod.
	must(t, r.API.Delete(ctx, first))
	must(t, os.WriteFile(file, []byte("a token that never counted"), 0o600))
	config, err = settings(ctx, r)
	must(t, err)
	until(t, time.Minute, "the API server rejects the agent's token", func() (bool, string) {
		return strings.Contains(r.Agent().Log(), "Unauthorized"), "no line yet"
	})
	must(t, r.API.Delete(ctx, config))
	renew("second")
	until(t, 2*time.Minute, "the agent corrects drift with its new token", func() (bool, string) {
		_, err := settings(ctx, r)
		return err == nil, fmt.Sprint(err)
	})
	if !running(r.Agent()) {
		t.Error("the agent exited")
	}
}

// running reports whether a process has not ended.
func running(p fleet.Program) bool {
	process, ok := p.(*fleet.Process)
	return ok && process.Running()
}
