package cloudauth

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

func TestSignatureIsThatOfTheAWSSDK(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC)
	for name, keys := range map[string]awsKeys{
		"session":    {"ASIA", "secret/key", "session+token=="},
		"long-lived": {"AKIA", "other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			newRequest := func() *http.Request {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
					"https://api.ecr.eu-central-1.amazonaws.com/", strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				request.ContentLength = 0 // the SDK would sign the length, too
				request.Header.Set("Content-Type", "application/x-amz-json-1.1")
				request.Header.Set("X-Amz-Target", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken")
				return request
			}
			got, want := newRequest(), newRequest()
			keys.sign(got, "{}", "eu-central-1", "ecr", now)
			err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{
				AccessKeyID: keys.ID, SecretAccessKey: keys.Secret, SessionToken: keys.Token,
			}, want, hashOf("{}"), "ecr", "eu-central-1", now)
			if err != nil {
				t.Fatal(err)
			}
			if got.Header.Get("Authorization") != want.Header.Get("Authorization") {
				t.Errorf("got  %s\nwant %s", got.Header.Get("Authorization"), want.Header.Get("Authorization"))
			}
		})
	}
}
