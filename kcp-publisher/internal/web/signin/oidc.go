package signin

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

const (
	providerTimeout = 10 * time.Second
	providerBytes   = 1 << 20
	// providerRetry is the pause after a failed discovery. Without a pause, each user would wait for the timeout.
	providerRetry = 5 * time.Second
)

// OIDCOptions configure the provider and the client.
type OIDCOptions struct {
	Mapping
	ClientID string
	// ClientSecretFile is the path of the file with the client secret, which is read at each sign-in. It is empty for a
	// public client.
	ClientSecretFile string
	// CAFile is the path of the file with the provider's CA certificates. By default, the system's certificates are
	// used.
	CAFile string
	// Scopes are requested in addition to openid.
	Scopes []string
	// Redirect is the callback URL.
	Redirect string
	// APIToken is true if the API server trusts the same issuer and client. The ID token is then also the user's bearer
	// token for the API server.
	APIToken bool
}

// OIDC signs users in with an OIDC provider. Discovery runs on first use, so the web UI can start while the provider is
// down.
type OIDC struct {
	options OIDCOptions
	client  *http.Client

	mu       sync.Mutex // guards all following fields
	provider *oidc.Provider
	failure  error // error from the last discovery, returned until retry
	retry    time.Time
}

// NewOIDC checks the options and returns an OIDC. It does not send requests.
func NewOIDC(options OIDCOptions) (*OIDC, error) {
	if !strings.HasPrefix(options.Issuer, "https://") {
		return nil, fmt.Errorf("issuer is %q, must be an https:// URL", options.Issuer)
	}
	if options.ClientID == "" {
		return nil, errors.New("client ID is required: set the ID that the provider assigned to the UI")
	}
	issuer, err := url.Parse(options.Issuer)
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	certificates := &tls.Config{MinVersion: tls.VersionTLS12}
	if options.CAFile != "" {
		pem, err := os.ReadFile(options.CAFile)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s does not contain a PEM certificate", options.CAFile)
		}
		certificates.RootCAs = roots
	}
	if options.ClientSecretFile != "" {
		if _, err := os.ReadFile(options.ClientSecretFile); err != nil {
			return nil, err
		}
	}
	// The provider's discovery document contains the endpoints for codes and keys. A redirect from an endpoint could
	// send codes and the client secret to a different address.
	return &OIDC{options: options, client: store.NewClient(store.ClientOptions{
		Hosts: []string{issuer.Host}, TLS: certificates, EncryptedOnly: true, Timeout: providerTimeout,
		Wrap: func(next http.RoundTripper) http.RoundTripper { return boundedTransport{next} },
	})}, nil
}

// boundedTransport truncates responses to providerBytes.
type boundedTransport struct{ http.RoundTripper }

func (b boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, providerBytes), answer.Body}
	}
	return answer, err
}

// signInFlow is the state of a sign-in while the user is at the provider. It is stored in an encrypted cookie.
type signInFlow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Landing  string `json:"landing"`
}

func (o *OIDC) discover(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider == nil && time.Now().Before(o.retry) {
		return nil, o.failure
	}
	if o.provider == nil {
		// The provider later fetches keys with the HTTP client in this context, so the context must not be canceled.
		provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), o.client), o.options.Issuer)
		if err != nil {
			o.failure, o.retry = fmt.Errorf("discover the OIDC provider %s: %w", o.options.Issuer, err),
				time.Now().Add(providerRetry)
			return nil, o.failure
		}
		o.provider = provider
	}
	return o.provider, nil
}

func (o *OIDC) config(provider *oidc.Provider) (*oauth2.Config, error) {
	config := &oauth2.Config{
		ClientID: o.options.ClientID, Endpoint: provider.Endpoint(), RedirectURL: o.options.Redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, o.options.Scopes...),
	}
	if o.options.ClientSecretFile != "" {
		secret, err := os.ReadFile(o.options.ClientSecretFile)
		if err != nil {
			return nil, fmt.Errorf("client secret: %w", err)
		}
		config.ClientSecret = strings.TrimSpace(string(secret))
	}
	return config, nil
}

func (o *OIDC) startURL(ctx context.Context, f signInFlow) (string, error) {
	provider, err := o.discover(ctx)
	if err != nil {
		return "", err
	}
	config, err := o.config(provider)
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

type signInResult struct {
	user    *user.DefaultInfo
	token   string // ID token
	expires time.Time
}

var errDenied = errors.New("the OIDC provider did not sign you in")

// responseCode returns the code from the provider's authorization response. It returns an error if the response does
// not belong to the flow.
func (o *OIDC) responseCode(f signInFlow, request *http.Request) (string, error) {
	query := request.URL.Query()
	for _, name := range []string{"state", "iss", "error", "code"} {
		if len(query[name]) > 1 {
			return "", fmt.Errorf("%w: the authorization response contains %q twice", errDenied, name)
		}
	}
	if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(f.State)) != 1 {
		return "", fmt.Errorf("%w: the authorization response belongs to another sign-in", errDenied)
	}
	// Source: RFC 9207, OAuth 2.0 Authorization Server Issuer Identification.
	if issuer := query.Get("iss"); issuer != "" && issuer != o.options.Issuer {
		return "", fmt.Errorf("%w: the authorization response has the wrong issuer", errDenied)
	}
	if query.Get("error") != "" || query.Get("code") == "" {
		return "", errDenied
	}
	return query.Get("code"), nil
}

// exchangeCode exchanges the code for tokens, and returns the ID token's user.
func (o *OIDC) exchangeCode(ctx context.Context, f signInFlow, code string) (signInResult, error) {
	provider, err := o.discover(ctx)
	if err != nil {
		return signInResult{}, err
	}
	config, err := o.config(provider)
	if err != nil {
		return signInResult{}, err
	}
	tokens, err := config.Exchange(oidc.ClientContext(ctx, o.client), code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return signInResult{}, exchangeFailure(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return signInResult{}, errors.New("the OIDC provider sent no ID token")
	}
	return o.verify(ctx, provider, f, raw)
}

// exchangeFailure returns an error without the provider's response, which can contain secrets.
func exchangeFailure(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: the exchange of the authorization code failed with %q", errDenied, refused.ErrorCode)
	}
	return fmt.Errorf("exchange the authorization code for tokens: %w", err)
}

func (o *OIDC) verify(ctx context.Context, provider *oidc.Provider, f signInFlow, raw string) (signInResult, error) {
	verified, err := provider.VerifierContext(oidc.ClientContext(ctx, o.client),
		&oidc.Config{ClientID: o.options.ClientID}).Verify(ctx, raw)
	if err != nil {
		return signInResult{}, fmt.Errorf("ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(f.Nonce)) != 1 {
		return signInResult{}, fmt.Errorf("%w: the ID token belongs to another sign-in", errDenied)
	}
	came := signInResult{token: raw, expires: verified.Expiry}
	if o.options.APIToken {
		return came, nil // a TokenReview for the ID token returns the user
	}
	claims := map[string]json.RawMessage{}
	if err := verified.Claims(&claims); err != nil {
		return signInResult{}, fmt.Errorf("ID token: %w", err)
	}
	came.user, err = o.options.user(claims)
	return came, err
}
