package cloudlogin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/containers/azcontainerregistry"
	"github.com/fluxcd/pkg/auth/azure"

	"github.com/kyma-pull/kyma-pull/internal/cloudauth"
)

// azureLibrary calls the Azure SDK with a given HTTP client. The embedded interface is nil, because a login calls only
// the methods that azureLibrary defines.
type azureLibrary struct {
	azure.Implementation
	client *http.Client
}

// NewDefaultAzureCredentialWithoutShellOut returns credentials for the first identity that is configured: environment
// variables, a workload identity, or the machine's managed identity.
func (a azureLibrary) NewDefaultAzureCredentialWithoutShellOut(
	*azidentity.DefaultAzureCredentialOptions,
) (azcore.TokenCredential, error) {
	common := azcore.ClientOptions{Transport: a.client}
	inEnvironment, first := azidentity.NewEnvironmentCredential(&azidentity.EnvironmentCredentialOptions{
		ClientOptions: common,
	})
	if first == nil {
		return inEnvironment, nil
	}
	ofWorkload, second := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
		ClientOptions: common,
	})
	if second == nil {
		return ofWorkload, nil
	}
	ofMachine, third := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
		ClientOptions: common,
	})
	if third == nil {
		return ofMachine, nil
	}
	return nil, errors.Join(first, second, third)
}

// ExchangeAADAccessTokenForACRRefreshToken returns the registry's refresh token. It returns an error for a token
// without an expiry, because pkg/auth would panic on such a token.
func (a azureLibrary) ExchangeAADAccessTokenForACRRefreshToken(
	ctx context.Context, _ *azcontainerregistry.AuthenticationClient,
	grant azcontainerregistry.PostContentSchemaGrantType, service string,
	options *azcontainerregistry.AuthenticationClientExchangeAADAccessTokenForACRRefreshTokenOptions,
) (found azcontainerregistry.AuthenticationClientExchangeAADAccessTokenForACRRefreshTokenResponse, err error) {
	client, err := azcontainerregistry.NewAuthenticationClient("https://"+service,
		&azcontainerregistry.AuthenticationClientOptions{ClientOptions: azcore.ClientOptions{Transport: a.client}})
	if err != nil {
		return found, err
	}
	found, err = client.ExchangeAADAccessTokenForACRRefreshToken(ctx, grant, service, options)
	if err != nil {
		return found, err
	}
	if found.RefreshToken == nil {
		return found, fmt.Errorf("the response from %s contains no refresh_token", service)
	}
	_, err = cloudauth.ExpiryOf(*found.RefreshToken)
	return found, err
}
