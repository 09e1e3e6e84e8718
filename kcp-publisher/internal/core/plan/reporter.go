package plan

import (
	"crypto"
	"errors"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Reporter returns whose reports are accepted as those of a Kyma's runtime: of the enrolled key, or of one that shows
// an unused token or a certificate of the fleet.
func (r Rules) Reporter(kyma *v1beta2.Kyma, tokens trust.TokenSecrets, now time.Time) bundle.Reporter {
	runtime := RuntimeID(kyma)
	reporter := bundle.Reporter{Runtime: runtime, Fleet: r.Root.Fleet, Now: now}
	var known *v1beta2.RuntimeKey
	if status := kyma.Status.Runtime; status != nil {
		reporter.LastSequence = status.ReportSequence
		if known = status.Key; known != nil {
			if key, err := trust.DecodePublicKey(known.PublicKey); err == nil {
				reporter.Key = key
			}
		}
	}
	revoked := RevokedKeys(kyma)
	reporter.Revoked = func(thumbprint string) bool {
		return r.Root.IsRevoked(thumbprint) || slices.Contains(revoked, thumbprint)
	}
	reporter.Enroll = func(e trust.Enrollment) error {
		// What introduced a key that was revoked since bounds no other token: a thief chooses how long his is valid.
		if known != nil && !reporter.Revoked(known.Thumbprint) && e.TokenExpires <= known.TokenExpires.Unix() {
			return errors.New("the token was used before: run `kcp-publisher enroll` again")
		}
		return tokens.Check(runtime, e, now)
	}
	reporter.Certified = func(text string) (crypto.PublicKey, error) {
		certificate, err := r.Root.CheckCertificate(text, runtime, now)
		return certificate.Key, err
	}
	return reporter
}
