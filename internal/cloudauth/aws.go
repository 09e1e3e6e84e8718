package cloudauth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// awsLogin logs in to Amazon ECR with an IAM role for the ServiceAccount (IRSA), EKS Pod Identity, or access keys in
// environment variables.
//
// Source: AWS STS API Reference, AssumeRoleWithWebIdentity; Amazon ECR API Reference, GetAuthorizationToken; AWS SDKs
// and Tools Reference Guide, "Container credential provider".
type awsLogin struct{ client *http.Client }

// awsKeys are temporary access keys.
type awsKeys struct {
	ID     string `json:"AccessKeyId"     xml:"AccessKeyId"`
	Secret string `json:"SecretAccessKey" xml:"SecretAccessKey"`
	Token  string `json:"Token"           xml:"SessionToken"`
}

func (a awsLogin) login(ctx context.Context, host string) (*store.Login, error) {
	region, domain := regionOf(host)
	keys, err := a.keys(ctx, region, domain)
	if err != nil {
		return nil, err
	}
	if keys.ID == "" || keys.Secret == "" {
		return nil, errors.New("the response contains no access keys")
	}
	at := awsEndpoint("ECR", "https://api.ecr."+region+"."+domain+"/")
	const body = "{}"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	request.Header.Set("X-Amz-Target", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken")
	if err := keys.sign(ctx, request, body, region, "ecr", time.Now()); err != nil {
		return nil, err
	}
	var found struct {
		Data []struct {
			Token   string  `json:"authorizationToken"`
			Expires float64 `json:"expiresAt"`
		} `json:"authorizationData"`
	}
	if err := exchangeJSON(a.client, request, &found); err != nil {
		return nil, err
	}
	if len(found.Data) == 0 || found.Data[0].Expires == 0 {
		return nil, errors.New("ECR returned no authorization token")
	}
	decoded, err := base64.StdEncoding.DecodeString(found.Data[0].Token)
	user, password, valid := strings.Cut(string(decoded), ":")
	if err != nil || !valid {
		return nil, errors.New("ECR returned an invalid authorization token")
	}
	return &store.Login{
		Username: user, Password: password, Expires: time.Unix(int64(found.Data[0].Expires), 0),
	}, nil
}

// awsEndpoint returns a service's URL from the AWS SDKs' environment variables, or the default.
func awsEndpoint(service, fallback string) string {
	return strings.TrimSuffix(
		cmp.Or(os.Getenv("AWS_ENDPOINT_URL_"+service), os.Getenv("AWS_ENDPOINT_URL"), fallback), "/") + "/"
}

func (a awsLogin) keys(ctx context.Context, region, domain string) (awsKeys, error) {
	if id := os.Getenv("AWS_ACCESS_KEY_ID"); id != "" {
		return awsKeys{id, os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SESSION_TOKEN")}, nil
	}
	if file := os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"); file != "" {
		return a.assumeRole(ctx, file, awsEndpoint("STS", "https://sts."+region+"."+domain+"/"))
	}
	if at := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"); at != "" {
		return a.podIdentity(ctx, at)
	}
	return awsKeys{}, errors.New("none of the environment variables AWS_WEB_IDENTITY_TOKEN_FILE (IRSA), " +
		"AWS_CONTAINER_CREDENTIALS_FULL_URI (EKS Pod Identity) and AWS_ACCESS_KEY_ID is set")
}

// assumeRole exchanges the ServiceAccount's token for access keys.
func (a awsLogin) assumeRole(ctx context.Context, file, endpoint string) (awsKeys, error) {
	values, err := requireEnv("AWS_ROLE_ARN")
	if err != nil {
		return awsKeys{}, err
	}
	token, err := readToken(file)
	if err != nil {
		return awsKeys{}, err
	}
	request, err := newForm(ctx, endpoint, url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {values[0]},
		"RoleSessionName":  {cmp.Or(os.Getenv("AWS_ROLE_SESSION_NAME"), "kyma-pull")},
		"WebIdentityToken": {token},
	})
	if err != nil {
		return awsKeys{}, err
	}
	body, err := exchange(a.client, request)
	if err != nil {
		return awsKeys{}, err
	}
	var found struct {
		Keys awsKeys `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if xml.Unmarshal(body, &found) != nil {
		return awsKeys{}, errors.New("the response from STS is not the expected XML document")
	}
	return found.Keys, nil
}

// podIdentity reads access keys from the EKS Pod Identity agent on the node.
func (a awsLogin) podIdentity(ctx context.Context, at string) (awsKeys, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return awsKeys{}, err
	}
	// The request contains the Pod's token, so like the AWS SDKs, send it over HTTP only within the node.
	if host := request.URL.Hostname(); request.URL.Scheme != "https" && !net.ParseIP(host).IsLoopback() &&
		!slices.Contains(metadataHosts[AWS], request.URL.Host) {
		return awsKeys{}, fmt.Errorf("AWS_CONTAINER_CREDENTIALS_FULL_URI: %s needs https", host)
	}
	token := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		if token, err = readToken(file); err != nil {
			return awsKeys{}, err
		}
	}
	if token != "" {
		request.Header.Set("Authorization", token)
	}
	var found awsKeys
	err = exchangeJSON(a.client, request, &found)
	return found, err
}
