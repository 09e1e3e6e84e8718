package cloudauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// sign adds the Authorization header of AWS Signature Version 4 to a request with this body.
func (k awsKeys) sign(
	ctx context.Context, request *http.Request, body, region, service string, now time.Time,
) error {
	sum := sha256.Sum256([]byte(body))
	return v4.NewSigner().SignHTTP(ctx, aws.Credentials{
		AccessKeyID: k.ID, SecretAccessKey: k.Secret, SessionToken: k.Token,
	}, request, hex.EncodeToString(sum[:]), service, region, now)
}
