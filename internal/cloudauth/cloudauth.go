// Package cloudauth logs in to the registries of cloud providers with the identity of a workload: Amazon ECR, Google
// Artifact Registry and Azure Container Registry.
//
// Input: the name of a provider, and the environment variables and token files that the provider's platform sets up for
// the identity. Output: a store.LoginFunc, which exchanges the identity for a password that expires.
//
// The agent uses this package, because the libraries in fluxcd/pkg/auth would add 11 MB to the agent. The publisher
// uses fluxcd/pkg/auth. See docs/adr/0054-cloud-logins-of-the-agent.md.
package cloudauth

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Names of the providers, as in Flux. Generic means no provider.
const (
	Generic = "generic"
	AWS     = "aws"
	GCP     = "gcp"
	Azure   = "azure"
)

// Providers contains the names of all providers.
var Providers = []string{Generic, AWS, GCP, Azure}

// Check returns an error for an unknown provider.
func Check(provider string) error {
	if !slices.Contains(Providers, provider) {
		return fmt.Errorf("unknown provider %q: use one of %s", provider, strings.Join(Providers, ", "))
	}
	return nil
}

// fixes contains advice for a failed login, by provider.
var fixes = map[string]string{
	AWS: "check the IAM role or EKS Pod Identity association of the ServiceAccount, and its permission " +
		"ecr:GetAuthorizationToken",
	GCP: "check that Workload Identity is enabled for the ServiceAccount, and its role for Artifact Registry",
	Azure: "check the client ID of the ServiceAccount, the Pod's label azure.workload.identity/use, and the role " +
		"AcrPull or AcrPush",
}

// Error means that a login failed.
type Error struct {
	// Provider and Host are the names of the provider and the registry.
	Provider, Host string
	Err            error
}

func (e *Error) Error() string {
	return fmt.Sprintf("log in to registry %s with provider %s: %v: %s", e.Host, e.Provider, e.Err, fixes[e.Provider])
}

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// NewLogin returns a provider's login function for workloads in a cluster, or nil for Generic.
func NewLogin(provider string) store.LoginFunc {
	client := NewClient(provider)
	logins := map[string]store.LoginFunc{
		AWS: awsLogin{client}.login, GCP: gcpLogin{client}.login, Azure: azureLogin{client}.login,
	}
	return Limit(provider, logins[provider])
}

// Limit returns a login function that calls login only for the provider's registries and wraps its errors in an *Error.
// It returns nil if login is nil, as for Generic.
func Limit(provider string, login store.LoginFunc) store.LoginFunc {
	if login == nil {
		return nil
	}
	return func(ctx context.Context, host string) (*store.Login, error) {
		if !Serves(provider, host) {
			return nil, nil
		}
		limited, cancel := context.WithTimeout(ctx, loginTimeout)
		defer cancel()
		found, err := login(limited, host)
		if err != nil {
			return nil, &Error{Provider: provider, Host: host, Err: err}
		}
		return found, nil
	}
}

// NewClient returns the HTTP client for a provider's endpoints. Only this client can connect to the provider's metadata
// service, and to endpoints that environment variables configure.
func NewClient(provider string) *http.Client {
	return store.NewClient(store.ClientOptions{
		Hosts: localHosts(provider), Timeout: requestTimeout, Retry: true, Wrap: limitBody,
	})
}
