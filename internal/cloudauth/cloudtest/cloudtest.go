// Package cloudtest simulates the login endpoints of cloud providers for tests.
//
// The requests and responses have the fields that the providers' API references define: AWS STS
// AssumeRoleWithWebIdentity, Amazon ECR GetAuthorizationToken, EKS Pod Identity; Google's metadata server, Security
// Token Service and IAM Credentials API; Microsoft's identity platform and Azure/acr docs/AAD-OAuth.md.
package cloudtest

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Hosts of the registries that the endpoints accept.
const (
	ECR   = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
	GCP   = "europe-west1-docker.pkg.dev"
	Azure = "fleet.azurecr.io"
)

// Cloud is a local server with the endpoints of all providers. It checks each request.
type Cloud struct {
	// HTTP is the URL of the server. Client sends all its HTTPS requests to the server, regardless of their host.
	HTTP   string
	Client *http.Client
	// Expires is when the credentials for ECR, ACR and a Google service account expire.
	Expires time.Time

	t  *testing.T
	mu sync.Mutex // guards the fields below
	// requests contains "METHOD PATH" for each request. broken contains responses that replace the usual ones, by path.
	requests []string
	broken   map[string]http.HandlerFunc
}

// variables lists the environment variables that configure a login.
var variables = []string{
	"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL_ECR", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
	"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_PROFILE", "AWS_REGION", "AWS_CA_BUNDLE",
	"AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "GCE_METADATA_HOST",
	"GOOGLE_APPLICATION_CREDENTIALS", "AZURE_AUTHORITY_HOST", "AZURE_CLIENT_ID", "AZURE_TENANT_ID",
	"AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT",
}

// Start starts a Cloud, and unsets the environment variables that would configure a real login on this machine.
func Start(t *testing.T) *Cloud {
	t.Helper()
	c := &Cloud{
		t: t, Expires: time.Now().Add(2 * time.Hour).Truncate(time.Second), broken: map[string]http.HandlerFunc{},
	}
	plain, encrypted := httptest.NewServer(c), httptest.NewTLSServer(c)
	t.Cleanup(plain.Close)
	t.Cleanup(encrypted.Close)
	c.HTTP, c.Client = plain.URL, encrypted.Client()
	transport := c.Client.Transport.(*http.Transport)
	transport.TLSClientConfig.InsecureSkipVerify = true
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !strings.HasSuffix(address, ":443") {
			return nil, fmt.Errorf("connection to %s: want HTTPS", address)
		}
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, encrypted.Listener.Addr().String())
	}
	for _, name := range variables {
		t.Setenv(name, "")
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", t.TempDir())
	return c
}

// Break replaces the response for a path.
func (c *Cloud) Break(path string, response http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken[path] = response
}

// Requests returns "METHOD PATH" for each request.
func (c *Cloud) Requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.requests...)
}

// WorkloadToken returns the path to a new file with the workload's token.
func WorkloadToken(t *testing.T) string {
	t.Helper()
	return File(t, "workload-token\n")
}

// File returns the path to a new file with this content.
func File(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ServeHTTP simulates the providers' endpoints.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := r.URL.Path
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		path = "/ecr"
	}
	c.mu.Lock()
	c.requests = append(c.requests, r.Method+" "+path)
	answer := c.broken[path]
	c.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	form := strings.Contains(r.Header.Get("Content-Type"), "x-www-form-urlencoded")
	check := func(parts ...string) {
		for _, part := range parts {
			if !strings.Contains(string(body), part) {
				c.t.Errorf("%s: the body %q does not contain %q", path, body, part)
			}
		}
		if len(parts) > 0 && !form {
			c.t.Errorf("%s: got content type %q, want a form", path, r.Header.Get("Content-Type"))
		}
	}
	switch path {
	case "/ecr":
		c.authorizeECR(w, r)
	case "/":
		check("Action=AssumeRoleWithWebIdentity", "Version=2011-06-15", "RoleArn=arn", "WebIdentityToken=workload-token")
		_, _ = fmt.Fprint(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">`+
			`<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey>`+
			`<SessionToken>session</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration></Credentials>`+
			`</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`)
	case "/v1/credentials":
		if r.Header.Get("Authorization") != "workload-token" {
			c.t.Errorf("got Authorization %q, want the token of the Pod", r.Header.Get("Authorization"))
		}
		_, _ = fmt.Fprint(w, `{"AccessKeyId":"ASIA","SecretAccessKey":"s","Token":"session","AccountId":"1",`+
			`"Expiration":"2030-01-01T00:00:00Z"}`)
	case "/computeMetadata/v1/instance/service-accounts/default/token":
		if r.Header.Get("Metadata-Flavor") != "Google" {
			c.t.Error("the header Metadata-Flavor is missing")
		}
		_, _ = fmt.Fprint(w, `{"access_token":"gcp-token","expires_in":3599,"token_type":"Bearer"}`)
	case "/v1/token":
		check("subject_token=workload-token", "audience=pool", "grant_type=urn", "token-exchange")
		_, _ = fmt.Fprint(w, `{"access_token":"federated","issued_token_type":"t","token_type":"Bearer","expires_in":3600}`)
	case "/impersonate":
		if r.Header.Get("Authorization") != "Bearer federated" {
			c.t.Errorf("got Authorization %q, want the federated token", r.Header.Get("Authorization"))
		}
		_, _ = fmt.Fprintf(w, `{"accessToken":"impersonated","expireTime":%q}`, c.Expires.Format(time.RFC3339))
	case "/tenant/oauth2/v2.0/token":
		check("client_id=client", "client_assertion=workload-token", "grant_type=client_credentials",
			"scope=https%3A%2F%2Fcontainerregistry.azure.net%2F.default")
		_, _ = fmt.Fprint(w, `{"token_type":"Bearer","expires_in":3599,"access_token":"entra-token"}`)
	case "/common/discovery/instance":
		_, _ = fmt.Fprint(w, `{"tenant_discovery_endpoint":"https://login.microsoftonline.com/tenant/v2.0/.well-known/`+
			`openid-configuration","metadata":[{"preferred_network":"login.microsoftonline.com",`+
			`"preferred_cache":"login.microsoftonline.com","aliases":["login.microsoftonline.com"]}]}`)
	case "/tenant/v2.0/.well-known/openid-configuration":
		_, _ = fmt.Fprint(w, `{"issuer":"https://login.microsoftonline.com/tenant/v2.0",`+
			`"token_endpoint":"https://login.microsoftonline.com/tenant/oauth2/v2.0/token",`+
			`"authorization_endpoint":"https://login.microsoftonline.com/tenant/oauth2/v2.0/authorize"}`)
	case "/oauth2/exchange":
		check("grant_type=access_token", "service="+Azure, "access_token=entra-token")
		_, _ = fmt.Fprintf(w, `{"refresh_token":%q}`, c.refreshToken())
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (c *Cloud) authorizeECR(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("X-Amz-Security-Token"); got != "session" {
		c.t.Errorf("got security token %q, want session", got)
	}
	if got := r.Header.Get("Authorization"); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=ASIA/") ||
		!strings.Contains(got, "/eu-central-1/ecr/aws4_request") {
		c.t.Errorf("got Authorization %q, want a signature for ECR in eu-central-1", got)
	}
	_, _ = fmt.Fprintf(w, `{"authorizationData":[{"authorizationToken":%q,"expiresAt":%d.1,"proxyEndpoint":"https://p"}]}`,
		base64.StdEncoding.EncodeToString([]byte("AWS:password")), c.Expires.Unix())
}

func (c *Cloud) refreshToken() string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode(fmt.Appendf(nil, `{"exp":%d}`, c.Expires.Unix())) + ".c2ln"
}
