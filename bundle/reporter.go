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
	// Fleet is the fleet's name, or empty if its root has none.
	Fleet string
	// Key is the runtime's enrolled key, nil before enrollment.
	Key crypto.PublicKey
	// Owner is the Kyma that the runtime must belong to, or zero to accept any Kyma.
	Owner  trust.Kyma
	Former []trust.Kyma
	// ClusterUID is the cluster that enrolled Key, empty if unknown.
	ClusterUID string
	// LastSequence is the sequence of the last accepted report of Key.
	LastSequence int64
	// Now is the control plane's clock. VerifyReport refuses reports that are too far in the future. Zero disables the
	// check.
	Now time.Time
	// Content returns an error for implausible content. Nil accepts all content within the limits of a report.
	Content func(Report) error
	// Known is the AcceptedReport.Content of a report that Content has already accepted. Content is not called for
	// reports with the same digest.
	Known digest.Digest
	// Enroll returns an error for an enrollment to refuse. Nil refuses every enrollment.
	Enroll func(trust.Enrollment) error
	// Certified returns the key of a certificate. VerifyReport calls it if Key is nil.
	Certified func(certificate string) (crypto.PublicKey, error)
	// Revoked reports whether a key is revoked. If nil, all keys are valid.
	Revoked func(thumbprint string) bool
}

// AcceptedReport is a verified report with the key that signed it. Its Enrollment is nil if VerifyReport did not verify
// the token.
type AcceptedReport struct {
	Report
	Digest digest.Digest
	// Content is the digest of the report without frequently changing fields, such as its time and sequence.
	Content digest.Digest
	Key     crypto.PublicKey
	// Enrolled is true if this report enrolled Key.
	Enrolled bool
}
