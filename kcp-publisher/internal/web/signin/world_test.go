package signin_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/hack/pristine"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/access"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/signin"
)

const (
	namespace = "kcp-system"
	// Only users with access to the fleet see this text.
	shown    = "the fleet with all its runtimes"
	validity = time.Second
)

var chart = filepath.Join("..", "..", "..", "..", "charts", "kcp-publisher")

type world struct {
	admin    client.Client
	page     *rest.Config // authenticates as the page's ServiceAccount
	provider *provider
	scheme   *runtime.Scheme
}

func startWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: run make test")
	}
	w := &world{scheme: runtime.NewScheme()}
	require.NoError(t,
		errors.Join(clientgoscheme.AddToScheme(w.scheme), v1beta2.AddToScheme(w.scheme),
			v1alpha1.AddToScheme(w.scheme)))
	var err error
	w.provider, err = startProvider(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(w.provider.Close)
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(chart, "files", "crds")}, ErrorIfCRDPathMissing: true,
	}
	env.ControlPlane.GetAPIServer().Configure().
		Set("oidc-issuer-url", w.provider.URL).Set("oidc-client-id", clientID).Set("oidc-ca-file", w.provider.caFile).
		Set("oidc-username-claim", "name").Set("oidc-username-prefix", "idp:").Set("oidc-groups-claim", "groups").
		Set("oidc-groups-prefix", "idp:").Set("oidc-signing-algs", "ES256")
	require.NoError(t, lender.ReportStart())
	config, err := pristine.Start(env)
	require.NoError(t, err)
	t.Cleanup(func() { _ = env.Stop() })
	w.admin, err = client.New(config, client.Options{Scheme: w.scheme})
	require.NoError(t, err)
	for _, name := range []string{namespace, "other"} {
		w.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	w.rights(t)
	w.page = rest.AnonymousClientConfig(config)
	w.page.BearerToken, _ = w.account(t, "kcp-publisher-ui", "")
	return w
}

func (w *world) rights(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chart, "rbac", "ui.yaml"))
	require.NoError(t, err)
	for _, document := range strings.Split(string(data), "\n---\n") {
		var kind metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal([]byte(document), &kind))
		object, err := w.scheme.New(kind.GroupVersionKind())
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal([]byte(document), object))
		w.create(t, object.(client.Object)) //nolint:forcetypeassert // all Kubernetes types implement it
	}
}

func (w *world) create(t *testing.T, object client.Object) {
	t.Helper()
	require.NoError(t, w.admin.Create(t.Context(), object))
}

// account creates a ServiceAccount and returns its token, and the Secret to which the token is bound. The token becomes
// invalid when the Secret is deleted.
func (w *world) account(t *testing.T, name, audience string) (string, *corev1.Secret) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(t, client.IgnoreAlreadyExists(w.admin.Create(t.Context(), account)))
	holder := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: name + "-"}}
	w.create(t, holder)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Secret", Name: holder.Name, UID: holder.UID,
		},
	}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	require.NoError(t, w.admin.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token, holder
}

// bind gives a user one of the chart's roles in a namespace.
func (w *world) bind(t *testing.T, in, role string, to rbacv1.Subject) *rbacv1.RoleBinding {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, GenerateName: "b-"}, Subjects: []rbacv1.Subject{to},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "kcp-publisher-ui-" + role},
	}
	w.create(t, binding)
	return binding
}

func accountOf(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

type site struct {
	*httptest.Server
	log *lines
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(prefix + args + "\n")
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type siteOptions struct {
	api      *rest.Config // defaults to the page's ServiceAccount
	audience string
	key      string // defaults to a key that all replicas share
	oidc     bool
	apiToken bool
	noTokens bool
	lifetime time.Duration
}

func (w *world) serve(t *testing.T, o siteOptions) *site {
	t.Helper()
	if o.api == nil {
		o.api = w.page
	}
	if o.key == "" {
		o.key = strings.Repeat("k", 64)
	}
	if o.lifetime == 0 {
		o.lifetime = time.Hour
	}
	s := &site{Server: httptest.NewUnstartedServer(nil), log: &lines{}}
	external := &url.URL{Scheme: "https", Host: s.Listener.Addr().String()}
	log := funcr.New(s.log.add, funcr.Options{})
	files := t.TempDir()
	keyFile, secretFile := filepath.Join(files, "session.key"), filepath.Join(files, "client-secret")
	require.NoError(t,
		errors.Join(os.WriteFile(keyFile, []byte(o.key), 0o600),
			os.WriteFile(secretFile, []byte(clientSecret+"\n"), 0o600)))
	keys, err := signin.OpenKeyFile(keyFile, time.Now)
	require.NoError(t, err)
	api, err := kubernetes.NewForConfig(o.api)
	require.NoError(t, err)
	options := signin.Options{
		External: external, Keys: keys,
		Tokens: signin.NewTokens(api.AuthenticationV1().TokenReviews(), o.audience, validity), TokenForm: !o.noTokens,
		Lifetime: o.lifetime, Recheck: validity, Now: time.Now, Log: log,
	}
	if o.oidc {
		options.OIDC, err = signin.NewOIDC(signin.OIDCOptions{
			Mapping: signin.Mapping{
				Issuer: w.provider.URL, UsernameClaim: "name", UsernamePrefix: "idp:", GroupsClaim: "groups",
				GroupsPrefix: "idp:",
			},
			ClientID: clientID, ClientSecretFile: secretFile, CAFile: w.provider.caFile, Redirect: external.String() +
				"/sign-in/callback", APIToken: o.apiToken,
		})
		require.NoError(t, err)
	}
	service, err := signin.New(options)
	require.NoError(t, err)
	users, err := access.NewUsers(api.AuthorizationV1(), validity)
	require.NoError(t, err)
	acting, err := access.NewActing(o.api, client.Options{Scheme: w.scheme})
	require.NoError(t, err)
	gate := &access.Gate{Namespace: namespace, SignIn: service, Users: users, Acting: acting, Log: log}
	s.Config.Handler = gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, shown, " at ", r.URL.Path)
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

type visitor struct {
	*http.Client
	site *site
}

func (s *site) visitor(t *testing.T) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	// The provider and the site use the same test certificate, so one transport trusts both.
	return &visitor{Client: &http.Client{Transport: s.Client().Transport, Jar: jar, Timeout: time.Minute}, site: s}
}

// seenPage is the response that a visitor gets after all redirects.
type seenPage struct {
	status  int
	path    string
	query   url.Values
	text    string
	headers http.Header
}

func (v *visitor) ask(t *testing.T, method, path string, form url.Values, headers ...string) seenPage {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, v.site.URL+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	request.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := v.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return seenPage{answer.StatusCode, answer.Request.URL.Path, answer.Request.URL.Query(), string(text), answer.Header}
}

func (v *visitor) get(t *testing.T, path string, headers ...string) seenPage {
	t.Helper()
	return v.ask(t, http.MethodGet, path, nil, headers...)
}

func (v *visitor) signIn(t *testing.T, token string) seenPage {
	t.Helper()
	return v.ask(t, http.MethodPost, "/sign-in/token", url.Values{"token": {token}, "next": {"/runtimes/berlin"}},
		"Sec-Fetch-Site", "same-origin")
}

func (s seenPage) String() string {
	return fmt.Sprintf("%d at %s?%s: %s", s.status, s.path, s.query.Encode(), s.text)
}

func (s seenPage) has(t *testing.T, status int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.text, text) {
			t.Errorf("page does not contain %q: %s", text, s)
		}
	}
	if s.status != status {
		t.Errorf("got a page without status %d: %s", status, s)
	}
	if status != http.StatusOK && strings.Contains(s.text, shown) {
		t.Errorf("a page with an error status shows the fleet: %s", s)
	}
}

func until(t *testing.T, what string, poll func() seenPage, holds func(seenPage) bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		last := poll()
		if holds(last) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s: last page %s", what, last)
		}
		time.Sleep(50 * time.Millisecond) // between polls with a deadline
	}
}
