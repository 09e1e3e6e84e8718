package cloudauth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cloudauth/cloudtest"
)

func logins(client *http.Client) map[string]store.LoginFunc {
	return map[string]store.LoginFunc{
		AWS: Limit(AWS, awsLogin{client}.login), GCP: Limit(GCP, gcpLogin{client}.login),
		Azure: Limit(Azure, azureLogin{client}.login),
	}
}

const metadataPath = "/computeMetadata/v1/instance/service-accounts/default/token"

func TestIdentityIsExchangedForPassword(t *testing.T) {
	for name, c := range map[string]struct {
		provider, host string
		env            func(*testing.T, *cloudtest.Cloud)
		user, password string
		// lifetime is the validity that the response grants, or zero if the password must expire at Cloud.Expires.
		lifetime time.Duration
		requests []string
	}{
		"IRSA": {AWS, cloudtest.ECR, func(t *testing.T, _ *cloudtest.Cloud) {
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a")
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", cloudtest.WorkloadToken(t))
		}, "AWS", "password", 0, []string{"POST /", "POST /ecr"}},
		"EKS Pod Identity": {AWS, cloudtest.ECR, func(t *testing.T, _ *cloudtest.Cloud) {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://169.254.170.23/v1/credentials")
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", cloudtest.WorkloadToken(t))
		}, "AWS", "password", 0, []string{"GET /v1/credentials", "POST /ecr"}},
		"AWS access keys": {AWS, cloudtest.ECR, func(t *testing.T, _ *cloudtest.Cloud) {
			t.Setenv("AWS_ACCESS_KEY_ID", "ASIA")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
			t.Setenv("AWS_SESSION_TOKEN", "session")
		}, "AWS", "password", 0, []string{"POST /ecr"}},
		"Workload Identity Federation": {GCP, cloudtest.GCP, func(t *testing.T, _ *cloudtest.Cloud) {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", federationFile(t, ""))
		}, "oauth2accesstoken", "federated", time.Hour, []string{"POST /v1/token"}},
		"federation with a service account": {GCP, cloudtest.GCP, func(t *testing.T, _ *cloudtest.Cloud) {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS",
				federationFile(t, `"service_account_impersonation_url":"https://iamcredentials.googleapis.com/impersonate",`))
		}, "oauth2accesstoken", "impersonated", 0, []string{"POST /v1/token", "POST /impersonate"}},
		"Entra Workload ID": {Azure, cloudtest.Azure, func(t *testing.T, _ *cloudtest.Cloud) {
			t.Setenv("AZURE_CLIENT_ID", "client")
			t.Setenv("AZURE_TENANT_ID", "tenant")
			t.Setenv("AZURE_FEDERATED_TOKEN_FILE", cloudtest.WorkloadToken(t))
		}, azureUser, "", 0, []string{"POST /tenant/oauth2/v2.0/token", "POST /oauth2/exchange"}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := cloudtest.Start(t)
			c.env(t, cloud)
			got, err := logins(cloud.Client)[c.provider](t.Context(), c.host)
			if err != nil {
				t.Fatal(err)
			}
			if got.Username != c.user || got.Password == "" || c.password != "" && got.Password != c.password {
				t.Errorf("got %s with %q, want %s with %q", got.Username, got.Password, c.user, c.password)
			}
			if c.lifetime == 0 && !got.Expires.Equal(cloud.Expires) ||
				c.lifetime > 0 && time.Until(got.Expires).Round(time.Minute) != c.lifetime {
				t.Errorf("the login expires at %s, want %s or in %s", got.Expires, cloud.Expires, c.lifetime)
			}
			if !slices.Equal(cloud.Requests(), c.requests) {
				t.Errorf("got requests %q, want %q", cloud.Requests(), c.requests)
			}
		})
	}
}

func federationFile(t *testing.T, more string) string {
	t.Helper()
	return cloudtest.File(t, `{"type":"external_account","audience":"pool","token_url":"https://sts.googleapis.com/v1/token",`+
		more+`"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","credential_source":{"file":"`+
		cloudtest.WorkloadToken(t)+`"}}`)
}

func TestSubjectTokenIsReadFromJSON(t *testing.T) {
	for content, want := range map[string]string{`{"id":"token"}`: "token", `{"id":1}`: "", "text": ""} {
		var f federation
		f.Source.File, f.Source.Format.Type, f.Source.Format.Field = cloudtest.File(t, content), "json", "id"
		if got, err := f.subject(); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", content, got, err, want)
		}
	}
}

func TestFailedLoginNamesProviderRegistryAndFix(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	withRole := map[string]string{"AWS_ROLE_ARN": "arn", "AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN"}
	withEntra := map[string]string{
		"AZURE_CLIENT_ID": "client", "AZURE_TENANT_ID": "tenant", "AZURE_FEDERATED_TOKEN_FILE": "TOKEN",
	}
	for name, c := range map[string]struct {
		provider, host string
		env            map[string]string
		path           string
		answer         http.HandlerFunc
		want           string
	}{
		"no identity": {AWS, cloudtest.ECR, nil, "/x", nil, "AWS_WEB_IDENTITY_TOKEN_FILE (IRSA)"},
		"Pod Identity over HTTP": {AWS, cloudtest.ECR, map[string]string{
			"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://pod.example/v1",
		}, "/x", nil, "pod.example needs https"},
		"no AWS role": {
			AWS, cloudtest.ECR, map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN"}, "/x", nil, "AWS_ROLE_ARN",
		},
		"missing AWS token file": {
			AWS, cloudtest.ECR, map[string]string{"AWS_ROLE_ARN": "a", "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere"}, "/x",
			nil, "/nowhere",
		},
		"STS denies the role": {
			AWS, cloudtest.ECR, withRole, "/", answer(403, "AccessDenied"), "status 403: AccessDenied",
		},
		"text instead of XML from STS": {AWS, cloudtest.ECR, withRole, "/", answer(200, "secret"), "not the expected XML"},
		"STS response without keys":    {AWS, cloudtest.ECR, withRole, "/", answer(200, "<a/>"), "no access keys"},
		"ECR denies the request": {
			AWS, cloudtest.ECR, withRole, "/ecr", answer(400, "AccessDeniedException"), "AccessDeniedException",
		},
		"ECR response without a token": {AWS, cloudtest.ECR, withRole, "/ecr", answer(200, "{}"), "no authorization token"},
		"ECR response with an invalid token": {
			AWS, cloudtest.ECR, withRole, "/ecr",
			answer(200, `{"authorizationData":[{"authorizationToken":"c2VjcmV0","expiresAt":1}]}`),
			"invalid authorization token",
		},
		"endless response": {
			AWS, cloudtest.ECR, withRole, "/ecr", answer(200, strings.Repeat(" ", maxBodyBytes+1)), "more than",
		},
		"missing GCP configuration file": {GCP, cloudtest.GCP, map[string]string{
			"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere",
		}, "/x", nil, "/nowhere"},
		"GCP configuration of another type": {
			GCP, cloudtest.GCP, map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "TOKEN"}, "/x", nil, "external_account",
		},
		"text instead of JSON from GCP": {GCP, cloudtest.GCP, map[string]string{
			"GOOGLE_APPLICATION_CREDENTIALS": "FEDERATION",
		}, "/v1/token", answer(200, "secret"), "not the expected JSON"},
		"GCP response without a token": {GCP, cloudtest.GCP, map[string]string{
			"GOOGLE_APPLICATION_CREDENTIALS": "FEDERATION",
		}, "/v1/token", answer(200, "{}"), "no access_token"},
		"no Entra client ID": {Azure, cloudtest.Azure, nil, "/x", nil, "AZURE_CLIENT_ID, AZURE_TENANT_ID"},
		"Entra denies the request": {
			Azure, cloudtest.Azure, withEntra, "/tenant/oauth2/v2.0/token", answer(401, "AADSTS700213"), "AADSTS700213",
		},
		"Entra authority over HTTP": {Azure, cloudtest.Azure, map[string]string{
			"AZURE_CLIENT_ID": "client", "AZURE_TENANT_ID": "tenant", "AZURE_FEDERATED_TOKEN_FILE": "TOKEN",
			"AZURE_AUTHORITY_HOST": "http://login.example/",
		}, "/x", nil, "must begin with https://"},
		"ACR token that is not a JWT": {
			Azure, cloudtest.Azure, withEntra, "/oauth2/exchange",
			answer(200, `{"refresh_token":"secret"}`), "JSON Web Token",
		},
		"ACR token without an expiry": {
			Azure, cloudtest.Azure, withEntra, "/oauth2/exchange", answer(200, `{"refresh_token":"a.e30.c"}`), "no expiry",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := cloudtest.Start(t)
			if c.answer != nil {
				cloud.Break(c.path, c.answer)
			}
			for key, value := range c.env {
				value = strings.NewReplacer("TOKEN", cloudtest.WorkloadToken(t), "FEDERATION", federationFile(t, "")).Replace(value)
				t.Setenv(key, value)
			}
			client := *cloud.Client
			client.Transport = limitBody(client.Transport)
			got, err := logins(&client)[c.provider](t.Context(), c.host)
			var failed *Error
			if !errors.As(err, &failed) {
				t.Fatalf("got %v, %v, want an *Error", got, err)
			}
			for _, part := range []string{c.host, "provider " + c.provider, c.want, fixes[c.provider]} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "workload-token") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

func TestProviderServesOnlyItsOwnRegistries(t *testing.T) {
	for host, want := range map[string]string{
		cloudtest.ECR: AWS, "123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com": AWS,
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn": AWS, "123456789012.dkr-ecr.eu-west-1.on.aws": AWS,
		"gcr.io": GCP, "eu.gcr.io": GCP, cloudtest.GCP: GCP, cloudtest.Azure: Azure, "Fleet.AzureCR.io": Azure,
		"123456789012.dkr.ecr.eu-central-1.amazonaws.com.evil.example": "", "evil-gcr.io": "", "azurecr.io": "",
		"a.azurecr.io:8443": "", "evil.example/.azurecr.io": "", "a.b.azurecr.io": "", "docker.pkg.dev": "",
		"ghcr.io": "", "123456789012.dkr.ecr.eu-central-1.amazonaws.com:5000": "", "x\n.azurecr.io": "", "": "",
	} {
		got := ""
		for _, provider := range Providers {
			if Serves(provider, host) {
				got = provider
			}
		}
		if got != want {
			t.Errorf("%q: got provider %q, want %q", host, got, want)
		}
	}
	if NewLogin(Generic) != nil || Check("ibm") == nil || Check(AWS) != nil {
		t.Error("want no login for generic, and an error for an unknown provider")
	}
	if region, domain := regionOf("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn"); region != "cn-north-1" ||
		domain != "amazonaws.com.cn" {
		t.Errorf("got region %q and domain %q", region, domain)
	}
}

func TestMetadataServerIsReachableForItsProviderOnly(t *testing.T) {
	cloud := cloudtest.Start(t)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(cloud.HTTP, "http://"))
	got, err := NewLogin(GCP)(t.Context(), cloudtest.GCP)
	if err != nil || got.Password != "gcp-token" {
		t.Errorf("metadata server: got %v, %v, want gcp-token", got, err)
	}
	// httptest listens at a loopback address, which only the provider's own environment variables allow.
	for _, provider := range []string{Generic, AWS, Azure} {
		_, _, err := MetadataToken(t.Context(), NewClient(provider))
		var refused *store.RedirectError
		if !errors.As(err, &refused) {
			t.Errorf("client of provider %s: got %v, want a refused connection", provider, err)
		}
	}
	if !slices.Equal(cloud.Requests(), []string{"GET " + metadataPath}) {
		t.Errorf("got requests %q, want one", cloud.Requests())
	}
}

func TestEndpointCannotRedirectALogin(t *testing.T) {
	cloud := cloudtest.Start(t)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the client followed the redirect with headers %v", r.Header)
	}))
	defer other.Close()
	cloud.Break("/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	t.Setenv("AWS_ROLE_ARN", "arn")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", cloudtest.WorkloadToken(t))
	t.Setenv("AWS_ENDPOINT_URL_STS", cloud.HTTP)
	_, err := NewLogin(AWS)(t.Context(), cloudtest.ECR)
	var refused *store.RedirectError
	if !errors.As(err, &refused) {
		t.Errorf("got %v, want a refused redirect", err)
	}
}

func TestLoginHasATimeout(t *testing.T) {
	slow := Limit(AWS, func(ctx context.Context, _ string) (*store.Login, error) {
		if deadline, limited := ctx.Deadline(); !limited || time.Until(deadline) > loginTimeout {
			t.Errorf("got deadline %s, want within %s", deadline, loginTimeout)
		}
		return nil, context.DeadlineExceeded
	})
	if _, err := slow(t.Context(), cloudtest.ECR); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the error of the login", err)
	}
}
