package plan

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Reporter returns whose reports are accepted as those of a Kyma's runtime: reports of the enrolled key, or of a key
// with an unused token or a certificate of the fleet for this Kyma. It is the only place that decides this.
func (r Rules) Reporter(kyma *v1beta2.Kyma, tokens trust.TokenSecrets, now time.Time) bundle.Reporter {
	runtime := RuntimeID(kyma)
	reporter := bundle.Reporter{
		Runtime: runtime,
		Fleet:   r.Root.Fleet,
		Now:     now,
		Owner:   Identity(kyma),
		Former:  formerOf(kyma.Status.Runtime),
	}
	var known *v1beta2.RuntimeKey
	if status := kyma.Status.Runtime; status != nil {
		reporter.LastSequence = status.ReportSequence
		if known = status.Key; known != nil {
			reporter.ClusterUID = known.ClusterUID
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
			return errUsedToken
		}
		return tokens.Check(Identity(kyma), runtime, e, now)
	}
	reporter.Certified = func(text string) (crypto.PublicKey, error) {
		certificate, err := r.Root.CheckCertificate(text, runtime, now)
		if err == nil {
			err = certifies(certificate.Kyma, kyma)
		}
		return certificate.Key, err
	}
	return reporter
}

var errUsedToken = errors.New("the token was used before: run `kcp-publisher enroll` again")

// certifies returns why a certificate does not make an agent known to a Kyma that has no key, nil if it does. A control
// plane that was rebuilt has other UIDs, so that names are compared. A certificate from before 0.1.0 names no Kyma: it
// counts for a Kyma that has the name of its runtime, which no label can claim.
func certifies(certified trust.Kyma, kyma *v1beta2.Kyma) error {
	own := Identity(kyma)
	switch {
	case Decided(kyma) > 0, certified.SameName(own), certified.IsZero() && kyma.Name == RuntimeID(kyma):
		return nil
	}
	return fmt.Errorf(
		"the certificate of runtime %s is for Kyma %s, this is Kyma %s: run `kcp-publisher enroll %s --replace --kyma %s`",
		RuntimeID(kyma),
		certified,
		own,
		RuntimeID(kyma),
		trust.Kyma{Namespace: own.Namespace, Name: own.Name},
	)
}

// Challenger returns whose reports assign a runtime to a Kyma that does not own it: reports with a token for this Kyma
// that expires after the tokens of all other Kymas that name the runtime. An operator made it after those, so that it
// replaces them.
func (r Rules) Challenger(
	kyma *v1beta2.Kyma,
	all []v1beta2.Kyma,
	tokens trust.TokenSecrets,
	now time.Time,
) bundle.Reporter {
	reporter := r.Reporter(kyma, tokens, now)
	reporter.Key, reporter.ClusterUID, reporter.LastSequence, reporter.Certified = nil, "", 0, nil
	enroll := reporter.Enroll
	reporter.Enroll = func(e trust.Enrollment) error {
		for i := range all {
			if s := all[i].Status.Runtime; Claimed(&all[i]) == reporter.Runtime && s != nil && s.Key != nil &&
				e.TokenExpires <= s.Key.TokenExpires.Unix() {
				return errUsedToken
			}
		}
		return enroll(e)
	}
	return reporter
}

// AcceptChallenge assigns the runtime to a Kyma by a report that Challenger accepted.
func AcceptChallenge(kyma *v1beta2.Kyma, all []v1beta2.Kyma, now time.Time) {
	former := NewOwners(all)[RuntimeID(kyma)]
	if former != nil && same(former, kyma) {
		former = nil
	}
	if former != nil && former.Status.Runtime != nil {
		requested := former.Status.Runtime.Requested.DeepCopy()
		defer func() {
			if kyma.Status.Runtime.Requested == nil {
				kyma.Status.Runtime.Requested = requested
			}
		}()
	}
	Begin(kyma)
	assign(kyma.Status.Runtime, former, now)
}
