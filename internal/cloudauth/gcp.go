package cloudauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

const (
	// gcpUser is the user name that Artifact Registry requires if the password is an access token.
	gcpUser     = "oauth2accesstoken"
	gcpMetadata = "169.254.169.254"
	gcpScope    = "https://www.googleapis.com/auth/cloud-platform"
)

// gcpLogin logs in to Google Artifact Registry with an access token. If GOOGLE_APPLICATION_CREDENTIALS names a
// configuration file for Workload Identity Federation, gcpLogin reads a token from the file that this configuration
// names, and exchanges it. Otherwise, it reads the access token from the metadata server, as in GKE.
//
// Source: "Obtain short-lived tokens for Workload Identity Federation" (Security Token Service and IAM Credentials
// API), and "Authenticate applications" of Compute Engine.
type gcpLogin struct{ client *http.Client }

func (g gcpLogin) login(ctx context.Context, _ string) (*store.Login, error) {
	source := MetadataToken
	if path := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"); path != "" {
		source = func(ctx context.Context, client *http.Client) (string, time.Time, error) {
			return federatedToken(ctx, client, path)
		}
	}
	token, expires, err := source(ctx, g.client)
	if err != nil {
		return nil, err
	}
	return &store.Login{Username: gcpUser, Password: token, Expires: expires}, nil
}

// gcpToken is a response with a token, from the metadata server or from the Security Token Service.
type gcpToken struct {
	Token   string `json:"access_token"`
	Seconds int    `json:"expires_in"`
}

func (g gcpToken) expiring() (string, time.Time, error) {
	if g.Token == "" || g.Seconds <= 0 {
		return "", time.Time{}, errors.New("the response contains no access_token and expires_in")
	}
	return g.Token, time.Now().Add(time.Duration(g.Seconds) * time.Second), nil
}

// MetadataToken returns the workload's access token from Google's metadata server.
func MetadataToken(ctx context.Context, client *http.Client) (token string, expires time.Time, err error) {
	host := cmp.Or(os.Getenv("GCE_METADATA_HOST"), gcpMetadata)
	at := "http://" + host + "/computeMetadata/v1/instance/service-accounts/default/token"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", time.Time{}, err
	}
	request.Header.Set("Metadata-Flavor", "Google")
	var found gcpToken
	if err := exchangeJSON(client, request, &found); err != nil {
		return "", time.Time{}, fmt.Errorf("metadata server: %w", err)
	}
	return found.expiring()
}

// federation is the configuration of Workload Identity Federation with a token file.
type federation struct {
	Type             string `json:"type"`
	Audience         string `json:"audience"`
	TokenType        string `json:"subject_token_type"`
	TokenURL         string `json:"token_url"`
	ImpersonationURL string `json:"service_account_impersonation_url"`
	Source           struct {
		File   string `json:"file"`
		Format struct {
			Type  string `json:"type"`
			Field string `json:"subject_token_field_name"`
		} `json:"format"`
	} `json:"credential_source"`
}

func readFederation(path string) (federation, error) {
	var f federation
	data, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	if json.Unmarshal(data, &f) != nil || f.Type != "external_account" || f.Source.File == "" {
		return f, fmt.Errorf("%s: want a configuration of Workload Identity Federation (external_account) with a token file",
			path)
	}
	for _, at := range []string{f.TokenURL, f.ImpersonationURL} {
		if at != "" && !strings.HasPrefix(at, "https://") {
			return f, fmt.Errorf("%s: the URL %s must begin with https://", path, at)
		}
	}
	f.TokenURL = cmp.Or(f.TokenURL, "https://sts.googleapis.com/v1/token")
	return f, nil
}

// subject returns the workload's token.
func (f federation) subject() (string, error) {
	token, err := readToken(f.Source.File)
	if err != nil || f.Source.Format.Type != "json" {
		return token, err
	}
	var fields map[string]any
	_ = json.Unmarshal([]byte(token), &fields) // if the text is not a JSON object, the field is missing
	if token, _ = fields[f.Source.Format.Field].(string); token == "" {
		return "", fmt.Errorf("%s: the JSON object has no field %q", f.Source.File, f.Source.Format.Field)
	}
	return token, nil
}

func federatedToken(ctx context.Context, client *http.Client, path string) (string, time.Time, error) {
	f, err := readFederation(path)
	if err != nil {
		return "", time.Time{}, err
	}
	subject, err := f.subject()
	if err != nil {
		return "", time.Time{}, err
	}
	request, err := newForm(ctx, f.TokenURL, url.Values{
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"audience":             {f.Audience}, "scope": {gcpScope}, "subject_token": {subject},
		"subject_token_type": {f.TokenType},
	})
	if err != nil {
		return "", time.Time{}, err
	}
	var found gcpToken
	if err := exchangeJSON(client, request, &found); err != nil {
		return "", time.Time{}, err
	}
	token, expires, err := found.expiring()
	if err != nil || f.ImpersonationURL == "" {
		return token, expires, err
	}
	return impersonate(ctx, client, f.ImpersonationURL, token)
}

// impersonate exchanges a federated token for a service account's token.
func impersonate(ctx context.Context, client *http.Client, at, token string) (string, time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(`{"scope":["`+gcpScope+`"]}`))
	if err != nil {
		return "", time.Time{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	var found struct {
		Token   string    `json:"accessToken"`
		Expires time.Time `json:"expireTime"`
	}
	if err := exchangeJSON(client, request, &found); err != nil {
		return "", time.Time{}, err
	}
	if found.Token == "" || found.Expires.IsZero() {
		return "", time.Time{}, errors.New("the response contains no accessToken and expireTime")
	}
	return found.Token, found.Expires, nil
}
