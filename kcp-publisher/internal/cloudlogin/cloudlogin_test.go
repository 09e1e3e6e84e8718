package cloudlogin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cloudauth"
	"github.com/kyma-pull/kyma-pull/internal/cloudauth/cloudtest"
)

// withRole, withFederation and withEntra set the environment variables that give a workload an AWS, Google or Azure
// identity.
func withRole(t *testing.T) {
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", cloudtest.WorkloadToken(t))
}

func withFederation(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", cloudtest.File(t, fmt.Sprintf(
		`{"type":"external_account","audience":"pool","token_url":"https://sts.googleapis.com/v1/token",`+
			`"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","credential_source":{"file":%q}}`,
		cloudtest.WorkloadToken(t))))
}

func withEntra(t *testing.T) {
	t.Setenv("AZURE_CLIENT_ID", "client")
	t.Setenv("AZURE_TENANT_ID", "tenant")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", cloudtest.WorkloadToken(t))
}

// TestIdentityIsExchangedForPassword in package cloudauth tests the agent's login with the same endpoints.
func TestCloudLibrariesExchangeIdentityForPassword(t *testing.T) {
	for name, c := range map[string]struct {
		provider, host, user, password string
		env                            func(*testing.T)
	}{
		"IRSA":       {cloudauth.AWS, cloudtest.ECR, "AWS", "password", withRole},
		"federation": {cloudauth.GCP, cloudtest.GCP, "oauth2accesstoken", "federated", withFederation},
		"Entra": {
			cloudauth.Azure, cloudtest.Azure, "00000000-0000-0000-0000-000000000000", "", withEntra,
		},
		"EKS Pod Identity": {cloudauth.AWS, cloudtest.ECR, "AWS", "password", func(t *testing.T) {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://169.254.170.23/v1/credentials")
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", cloudtest.File(t, "workload-token"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := cloudtest.Start(t)
			c.env(t)
			got, err := newLogin(c.provider, cloud.Client)(t.Context(), c.host)
			if err != nil {
				t.Fatalf("%v; requests %q", err, cloud.Requests())
			}
			if got.Username != c.user || got.Password == "" || c.password != "" && got.Password != c.password ||
				time.Until(got.Expires) < time.Hour-time.Minute {
				t.Errorf("got %s with %q until %s, want %s with %q", got.Username, got.Password, got.Expires, c.user, c.password)
			}
		})
	}
}

func TestMetadataServerIsReadWithTheLimitedClient(t *testing.T) {
	cloud := cloudtest.Start(t)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(cloud.HTTP, "http://"))
	got, err := NewLogin(cloudauth.GCP)(t.Context(), cloudtest.GCP)
	if err != nil || got.Password != "gcp-token" {
		t.Errorf("got %v, %v, want gcp-token", got, err)
	}
	var refused *store.RedirectError
	if _, err = newLogin(cloudauth.GCP, cloudauth.NewClient(cloudauth.AWS))(t.Context(), cloudtest.GCP); !errors.As(
		err, &refused) {
		t.Errorf("client of another provider: got %v, want a refused connection", err)
	}
}

func TestCloudLibrariesDoNotFollowRedirects(t *testing.T) {
	cloud := cloudtest.Start(t)
	withRole(t)
	t.Setenv("AWS_ENDPOINT_URL_STS", cloud.HTTP)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	cloud.Break("/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, cloud.HTTP+"/v1/credentials", http.StatusTemporaryRedirect)
	})
	_, err := NewLogin(cloudauth.AWS)(t.Context(), cloudtest.ECR)
	var failed *cloudauth.Error
	if !errors.As(err, &failed) {
		t.Errorf("got %v, want an *Error", err)
	}
	for _, request := range cloud.Requests() {
		if request != "POST /" {
			t.Errorf("got request %s, want none after the redirect", request)
		}
	}
}

func TestInvalidRefreshTokensAreRefused(t *testing.T) {
	for _, body := range []string{"{}", `{"refresh_token":"a.e30.c"}`, `{"refresh_token":"secret"}`} {
		cloud := cloudtest.Start(t)
		withEntra(t)
		cloud.Break("/oauth2/exchange", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, body)
		})
		if got, err := newLogin(cloudauth.Azure, cloud.Client)(t.Context(), cloudtest.Azure); err == nil {
			t.Errorf("%s: got %v, want an error", body, got)
		}
	}
}

func TestAWSCABundleVariableIsRefused(t *testing.T) {
	cloud := cloudtest.Start(t)
	withRole(t)
	t.Setenv("AWS_CA_BUNDLE", "/nowhere")
	_, err := newLogin(cloudauth.AWS, cloud.Client)(t.Context(), cloudtest.ECR)
	if err == nil || !strings.Contains(err.Error(), "AWS_CA_BUNDLE is not supported") {
		t.Errorf("got %v, want an error about AWS_CA_BUNDLE", err)
	}
}
