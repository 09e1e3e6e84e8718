package plan

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Reporter returns the rules for accepting reports from a Kyma's runtime. A report must be signed with the enrolled
// key. Another key is accepted if the report contains an unused enrollment token or a certificate for this Kyma.
func (r Rules) Reporter(kyma *v1beta2.Kyma, tokens trust.TokenSecrets, now time.Time) bundle.Reporter {
	runtime := RuntimeID(kyma)
	reporter := bundle.Reporter{
		Runtime: runtime,
		Fleet:   r.Root.Fleet,
		Now:     now,
		Owner:   KymaIdentity(kyma),
		Former:  formerOwners(kyma.Status.Runtime),
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
	revoked := revokedKeys(kyma)
	reporter.Revoked = func(thumbprint string) bool {
		return r.Root.IsRevoked(thumbprint) || slices.Contains(revoked, thumbprint)
	}
	reporter.Enroll = func(e trust.Enrollment) error {
		// Check the token even if the key is revoked, because an attacker who stole the key may also have the token
		// that enrolled it.
		if known != nil && e.TokenExpires <= known.TokenExpires.Unix() {
			return errUsedToken
		}
		return tokens.Check(KymaIdentity(kyma), runtime, e, now)
	}
	reporter.Certified = func(text string) (crypto.PublicKey, error) {
		certificate, err := r.Root.CheckCertificate(text, runtime, now)
		if err == nil {
			err = checkCertified(certificate.Kyma, kyma)
		}
		return certificate.Key, err
	}
	return reporter
}

// revokedKeys returns the thumbprints of the agent keys that the Kyma's annotation revokes.
func revokedKeys(kyma *v1beta2.Kyma) []string {
	return strings.Fields(kyma.Annotations[v1beta2.AnnotationRevokedKeys])
}

var errUsedToken = errors.New("the token was already used, or expires before a used token: run `kcp-publisher " +
	"enroll` again, with a longer --token-validity if necessary")

// checkCertified returns an error if a certificate was issued for another Kyma. It compares the names of the Kymas,
// because their UIDs change if the control plane is rebuilt. Publishers older than 0.1.0 issued certificates without a
// Kyma. These certificates are valid for the Kyma whose name is the runtime ID.
func checkCertified(certified trust.Kyma, kyma *v1beta2.Kyma) error {
	own := KymaIdentity(kyma)
	switch {
	case AssignedAt(kyma) > 0, certified.SameName(own), certified.IsZero() && kyma.Name == RuntimeID(kyma):
		return nil
	}
	return fmt.Errorf(
		"the certificate of runtime %s is for Kyma %s, not for Kyma %s: run `kcp-publisher enroll %s --replace "+
			"--kyma %s`",
		RuntimeID(kyma),
		certified,
		own,
		RuntimeID(kyma),
		trust.Kyma{Namespace: own.Namespace, Name: own.Name},
	)
}

// ChallengeReporter returns the rules for accepting a report that makes this Kyma the owner of a runtime that another
// Kyma owns. The report must contain an enrollment token for this Kyma. The token must expire later than the used
// tokens of all other Kymas with this runtime ID.
func (r Rules) ChallengeReporter(
	kyma *v1beta2.Kyma, all []v1beta2.Kyma, tokens trust.TokenSecrets, now time.Time,
) bundle.Reporter {
	reporter := r.Reporter(kyma, tokens, now)
	reporter.Key, reporter.ClusterUID, reporter.LastSequence, reporter.Certified = nil, "", 0, nil
	enroll := reporter.Enroll
	reporter.Enroll = func(e trust.Enrollment) error {
		for i := range all {
			if s := all[i].Status.Runtime; ClaimedRuntimeID(&all[i]) == reporter.Runtime && s != nil && s.Key != nil &&
				e.TokenExpires <= s.Key.TokenExpires.Unix() {
				return errUsedToken
			}
		}
		return enroll(e)
	}
	return reporter
}

// AcceptChallenge assigns the runtime to a Kyma after the rules of ChallengeReporter accepted a report. The assignment
// is newer than all others, even if some have a time in the future because an operator's clock was wrong.
func AcceptChallenge(kyma *v1beta2.Kyma, all []v1beta2.Kyma, now time.Time) {
	at := now.UnixMilli()
	for i := range all {
		if ClaimedRuntimeID(&all[i]) == RuntimeID(kyma) {
			at = max(at, AssignedAt(&all[i])+1)
		}
	}
	former := NewOwners(all)[RuntimeID(kyma)]
	if former != nil && isSameKyma(former, kyma) {
		former = nil
	}
	RecordOwner(kyma)
	// If this Kyma is a former owner, its own request is older than the last owner's request.
	if former != nil && former.Status.Runtime != nil && former.Status.Runtime.Requested != nil {
		kyma.Status.Runtime.Requested = former.Status.Runtime.Requested.DeepCopy()
	}
	assign(kyma.Status.Runtime, former, time.UnixMilli(at))
}
