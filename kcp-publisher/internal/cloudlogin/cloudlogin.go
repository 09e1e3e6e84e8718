// Package cloudlogin logs in to the registries of cloud providers with the libraries of fluxcd/pkg/auth.
//
// The libraries find an identity in the same places as Flux: workload identity, files and environment variables of the
// providers' command-line tools, and the machine's identity. The libraries send all requests with package cloudauth's
// client, which limits redirects and addresses.
package cloudlogin

import (
	"context"
	"net/http"

	"github.com/fluxcd/pkg/auth"
	"github.com/fluxcd/pkg/auth/aws"
	"github.com/fluxcd/pkg/auth/azure"
	"github.com/fluxcd/pkg/auth/gcp"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cloudauth"
)

// NewLogin returns the login for a provider, or nil for cloudauth.Generic.
func NewLogin(provider string) store.LoginFunc {
	return cloudauth.Limit(provider, newLogin(provider, cloudauth.NewClient(provider)))
}

func newLogin(provider string, client *http.Client) store.LoginFunc {
	library := map[string]auth.ArtifactRegistryCredentialsProvider{
		cloudauth.AWS:   aws.Provider{Implementation: awsLibrary{client: client}},
		cloudauth.GCP:   gcp.Provider{Implementation: gcpLibrary{client: client}},
		cloudauth.Azure: azure.Provider{Implementation: azureLibrary{client: client}},
	}[provider]
	if library == nil {
		return nil
	}
	return func(ctx context.Context, host string) (*store.Login, error) {
		found, err := auth.GetArtifactRegistryCredentials(ctx, library, host)
		if err != nil {
			return nil, err
		}
		password, err := found.Authorization()
		if err != nil {
			return nil, err
		}
		return &store.Login{Username: password.Username, Password: password.Password, Expires: found.ExpiresAt}, nil
	}
}
