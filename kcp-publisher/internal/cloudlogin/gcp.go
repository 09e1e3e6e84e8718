package cloudlogin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/fluxcd/pkg/auth/gcp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/kyma-pull/kyma-pull/internal/cloudauth"
)

// gcpLibrary calls Google's library with a given HTTP client. The embedded interface is nil, because a login calls only
// the method that gcpLibrary defines.
type gcpLibrary struct {
	gcp.Implementation
	client *http.Client
}

// DefaultTokenSource returns the token source for Google's application default credentials: a file, or the metadata
// server. Google's own function would connect to the metadata server with a different HTTP client.
func (g gcpLibrary) DefaultTokenSource(ctx context.Context, scopes ...string) (oauth2.TokenSource, error) {
	path := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	required := path != ""
	if !required {
		path = userFile()
	}
	data, err := os.ReadFile(path)
	if !required && errors.Is(err, fs.ErrNotExist) {
		return metadataSource{ctx, g.client}, nil
	}
	if err != nil {
		return nil, err
	}
	var file struct {
		Type google.CredentialsType `json:"type"`
	}
	if json.Unmarshal(data, &file) != nil || file.Type == "" {
		return nil, fmt.Errorf("%s is not a file with Google credentials", path)
	}
	found, err := google.CredentialsFromJSONWithType(
		context.WithValue(ctx, oauth2.HTTPClient, g.client), data, file.Type, scopes...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return found.TokenSource, nil
}

// userFile returns the path of the file that `gcloud auth application-default login` writes.
func userFile() string {
	home, _ := os.UserHomeDir()
	return filepath.Join(cmp.Or(os.Getenv("CLOUDSDK_CONFIG"), filepath.Join(home, ".config", "gcloud")),
		"application_default_credentials.json")
}

type metadataSource struct {
	ctx    context.Context // the login's context, because a metadataSource is used only during a login
	client *http.Client
}

// Token returns an access token.
func (m metadataSource) Token() (*oauth2.Token, error) {
	token, expires, err := cloudauth.MetadataToken(m.ctx, m.client)
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: token, Expiry: expires}, nil
}
