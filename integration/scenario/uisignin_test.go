package scenario

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// controlToken creates a ServiceAccount in the control plane and returns its token.
func controlToken(t *testing.T, f *fleet.Fleet, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: name}}
	must(t, client.IgnoreAlreadyExists(f.Control.Create(t.Context(), account)))
	request := &authenticationv1.TokenRequest{}
	must(t, f.Control.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// startPage runs `kcp-publisher ui` as the chart does, with additional flags, and returns its address and its log.
func startPage(t *testing.T, f *fleet.Fleet, flags ...string) (address, log string) {
	t.Helper()
	ctx := t.Context()
	must(t, fleet.ApplyChartFile(ctx, f.Control, "kcp-publisher", "rbac", "ui.yaml"))
	kubeconfig, err := clientcmd.LoadFromFile(filepath.Join(f.Dir, "kcp.kubeconfig"))
	must(t, err)
	for name := range kubeconfig.AuthInfos {
		kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: controlToken(t, f, "kcp-publisher-ui")}
	}
	file := func(name string) string { return filepath.Join(f.Dir, name) }
	certificate, key, err := registry.NewCertificate(net.IPv4(127, 0, 0, 1), "localhost")
	must(t, errors.Join(err, clientcmd.WriteToFile(*kubeconfig, file("ui.kubeconfig")),
		os.WriteFile(file("session.key"), []byte(strings.Repeat("5e", 32)), 0o600),
		os.WriteFile(file("ui.crt"), certificate, 0o600), os.WriteFile(file("ui.key"), key, 0o600)))
	// The page needs its external URL as a flag, so reserve an address first.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	must(t, err)
	address = listener.Addr().String()
	must(t, listener.Close())
	logFile, err := os.Create(file("ui.log"))
	must(t, err)
	page := exec.CommandContext(ctx, f.Binaries().Publisher, append([]string{"ui", "--kubeconfig",
		file("ui.kubeconfig"), "--bind-address", address, "--external-url", "https://" + address,
		"--session-key", file("session.key"), "--tls-certificate", file("ui.crt"), "--tls-key", file("ui.key")},
		flags...)...)
	page.Stdout, page.Stderr = logFile, logFile
	must(t, page.Start())
	t.Cleanup(func() { _ = page.Process.Kill(); _ = page.Wait(); _ = logFile.Close() })
	return address, file("ui.log")
}

// bind grants a Role from the chart to a ServiceAccount.
func bind(t *testing.T, f *fleet.Fleet, account, role string) *rbacv1.RoleBinding {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: account + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: sample.Namespace, Name: account}},
	}
	must(t, f.Control.Create(t.Context(), binding))
	return binding
}

// browser is a user who opens the page.
type browser struct {
	*testing.T
	http.Client
	address string
}

func newBrowser(t *testing.T, address string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	// The page's certificate is self-signed.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t, http.Client{Jar: jar, Transport: transport, Timeout: time.Minute}, address}
}

// ask sends a request and returns the status, final path and text of the response.
func (b *browser) ask(method, path string, form url.Values) (int, string, error) {
	request, err := http.NewRequestWithContext(b.Context(), method, "https://"+b.address+path,
		strings.NewReader(form.Encode()))
	must(b.T, err)
	request.Header.Set("Accept", "text/html")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	answer, err := b.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Request.URL.Path + "\n" + string(text), err
}

func (b *browser) untilShown(what, method, path string, form url.Values, status int, texts ...string) {
	b.Helper()
	until(b.T, 60*time.Second, what, func() (bool, string) {
		got, text, err := b.ask(method, path, form)
		if err != nil || got != status {
			return false, fmt.Sprint(err, got, text)
		}
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return false, fmt.Sprintf("no %q in %s", want, text)
			}
		}
		return true, ""
	})
}

func TestSignedInUsersSeeOnlyTheirNamespaces(t *testing.T) {
	suite.Long(t) // the short suite runs TestUsersSeeOnlyObjectsTheyCanRead
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	address, log := startPage(t, f)
	signIn := func(name string) (*browser, string) {
		token := controlToken(t, f, name)
		return newBrowser(t, address), token
	}
	ann, token := signIn("ann")
	ann.untilShown("the page requires a sign-in", http.MethodGet, "/", nil, http.StatusOK, "/sign-in\n",
		"Sign in to see the fleet")
	ann.untilShown("a user without rights sees the list of missing permissions", http.MethodPost, "/sign-in/token",
		url.Values{"token": {token}}, http.StatusForbidden,
		"system:serviceaccount:kcp-system:ann",
		"kubectl auth can-i list kymas.operator.kyma-project.io --namespace kcp-system")
	binding := bind(t, f, "ann", "kcp-publisher-ui-viewer")
	ann.untilShown("a user with permissions sees the fleet", http.MethodGet, "/", nil, http.StatusOK, "berlin",
		"system:serviceaccount:kcp-system:ann", "/sign-out")
	ann.untilShown("the user sees the runtime", http.MethodGet, "/runtimes/berlin", nil, http.StatusOK, "scaler",
		"1.7.0")
	must(t, f.Control.Delete(ctx, binding))
	ann.untilShown("a user without rights cannot see the runtime", http.MethodGet, "/runtimes/berlin", nil,
		http.StatusForbidden, "You cannot see this")
	ann.untilShown("the user signs out", http.MethodPost, "/sign-out", nil, http.StatusOK, "/sign-in\n")
	data, err := os.ReadFile(log)
	must(t, err)
	if strings.Contains(string(data), token) || strings.Contains(string(data), strings.Split(token, ".")[1]) {
		t.Errorf("the log contains the token: %s", data)
	}
}
