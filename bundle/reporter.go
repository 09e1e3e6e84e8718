package bundle

import (
	"crypto"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Reporter contains the control plane's data about the runtime that sent a report.
type Reporter struct {
	Runtime string
	// Fleet is the fleet's name in the root of trust, or empty to accept reports from any fleet.
	Fleet string
	// Key is the runtime's enrolled key, nil before enrollment.
	Key crypto.PublicKey
	// Owner is the Kyma that the runtime must belong to, or zero to accept any Kyma.
	Owner  trust.Kyma
	Former []trust.Kyma
	// ClusterUID is the UID of the cluster whose agent enrolled Key, or empty if it is unknown.
	ClusterUID string
	// LastSequence is the sequence of the last accepted report that Key signed.
	LastSequence int64
	// Now is the current time in the control plane. VerifyReport refuses reports whose time is too far in the future.
	// The zero value disables this check.
	Now time.Time
	// Content returns an error for a report with implausible content. If the function is nil, VerifyReport checks only
	// the limits in Report.Check.
	Content func(Report) error
	// Known is the content digest of the last accepted report (AcceptedReport.Content). VerifyReport does not call the
	// function Content again for a report with this digest.
	Known digest.Digest
	// Enroll returns an error if the control plane must not accept the enrollment. If the function is nil, VerifyReport
	// refuses every enrollment.
	Enroll func(trust.Enrollment) error
	// Certified returns the public key in a certificate that the control plane issued. VerifyReport calls it only if
	// Key is nil.
	Certified func(certificate string) (crypto.PublicKey, error)
	// Revoked reports whether a key is revoked. If nil, all keys are valid.
	Revoked func(thumbprint string) bool
}

// AcceptedReport is a verified report with the key that signed it. Its Enrollment is nil unless VerifyReport verified
// the enrollment with Reporter.Enroll.
type AcceptedReport struct {
	Report
	Digest digest.Digest
	// Content is the digest of the report without frequently changing fields, such as its time and sequence.
	Content digest.Digest
	Key     crypto.PublicKey
	// Enrolled is true if VerifyReport accepted Key because of the enrollment or certificate in this report.
	Enrolled bool
}
