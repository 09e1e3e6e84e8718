package cloudlogin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/fluxcd/pkg/auth/aws"
)

// awsLibrary calls the AWS SDK with a given HTTP client. The embedded interface is nil, because a login calls only the
// methods that awsLibrary defines.
type awsLibrary struct {
	aws.Implementation
	client *http.Client
}

// LoadDefaultConfig finds AWS credentials. It appends its own options, so that they override the caller's.
func (a awsLibrary) LoadDefaultConfig(
	ctx context.Context, options ...func(*config.LoadOptions) error,
) (sdk.Config, error) {
	// The AWS SDK adds the CA bundle only to its own HTTP client, which does not limit redirects.
	if os.Getenv("AWS_CA_BUNDLE") != "" {
		return sdk.Config{}, errors.New("AWS_CA_BUNDLE is not supported: unset it, and set SSL_CERT_FILE to a file with " +
			"all trusted CAs")
	}
	return config.LoadDefaultConfig(ctx, append(options, config.WithHTTPClient(a.client),
		// By default, the SDK uses its own HTTP client to read container credentials, such as those of EKS Pod Identity.
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = a.client }))...)
}

// GetAuthorizationToken returns the password for ECR.
func (a awsLibrary) GetAuthorizationToken(ctx context.Context, settings sdk.Config) (any, error) {
	settings.HTTPClient = a.client
	// pkg/auth creates the settings without reading endpoints from environment variables.
	if at := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_ECR"), os.Getenv("AWS_ENDPOINT_URL")); at != "" {
		settings.BaseEndpoint = &at
	}
	return ecr.NewFromConfig(settings).GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
}
