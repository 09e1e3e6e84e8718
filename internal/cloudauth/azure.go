package cloudauth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

const (
	// azureUser is the user name that ACR requires if the password is a token.
	azureUser  = "00000000-0000-0000-0000-000000000000"
	azureScope = "https://containerregistry.azure.net/.default"
)

// azureLogin logs in to Azure Container Registry with Microsoft Entra Workload ID. It exchanges the ServiceAccount's
// token for a Microsoft Entra token, and then that token for the registry's refresh token.
//
// Source: "OAuth 2.0 client credentials flow" of Microsoft's identity platform, with a federated credential; Azure/acr,
// docs/AAD-OAuth.md.
type azureLogin struct{ client *http.Client }

func (a azureLogin) login(ctx context.Context, host string) (*store.Login, error) {
	token, err := a.entraToken(ctx)
	if err != nil {
		return nil, err
	}
	request, err := newForm(ctx, "https://"+host+"/oauth2/exchange", url.Values{
		"grant_type": {"access_token"}, "service": {host}, "access_token": {token},
	})
	if err != nil {
		return nil, err
	}
	var found struct {
		Token string `json:"refresh_token"`
	}
	if err := exchangeJSON(a.client, request, &found); err != nil {
		return nil, err
	}
	expires, err := ExpiryOf(found.Token)
	if err != nil {
		return nil, err
	}
	return &store.Login{Username: azureUser, Password: found.Token, Expires: expires}, nil
}

func (a azureLogin) entraToken(ctx context.Context) (string, error) {
	values, err := requireEnv("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE")
	if err != nil {
		return "", err
	}
	assertion, err := readToken(values[2])
	if err != nil {
		return "", err
	}
	authority := cmp.Or(os.Getenv("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com/")
	if !strings.HasPrefix(authority, "https://") {
		return "", errors.New("AZURE_AUTHORITY_HOST must begin with https://")
	}
	at := strings.TrimSuffix(authority, "/") + "/" + url.PathEscape(values[1]) + "/oauth2/v2.0/token"
	request, err := newForm(ctx, at, url.Values{
		"client_id": {values[0]}, "scope": {azureScope}, "grant_type": {"client_credentials"},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {assertion},
	})
	if err != nil {
		return "", err
	}
	var found struct {
		Token string `json:"access_token"`
	}
	if err := exchangeJSON(a.client, request, &found); err != nil {
		return "", err
	}
	if found.Token == "" {
		return "", errors.New("the response contains no access_token")
	}
	return found.Token, nil
}

// ExpiryOf returns the time in the "exp" claim of a JSON Web Token. It does not verify the token, because only the
// registry can do this.
func ExpiryOf(token string) (time.Time, error) {
	parts := strings.Split(token, ".")
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if len(parts) != 3 {
		return time.Time{}, errors.New("the registry's refresh token is not a JSON Web Token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expires == 0 {
		return time.Time{}, errors.New("the registry's refresh token has no expiry")
	}
	return time.Unix(int64(claims.Expires), 0), nil
}
