package fleetstate

import (
	"crypto"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Report is the latest report of a runtime that the publisher has read, and the result of its verification.
type Report struct {
	// AskedAt is the time at which the publisher last asked the registry for the latest report, or zero. If the first
	// read is postponed, PostponedTo is the time to which it is postponed. Otherwise, it is zero.
	AskedAt, PostponedTo time.Time
	// NotifiedCount is the value that Runtime.NotifiedCount had before the publisher asked the registry.
	NotifiedCount int64
	// Digest is the digest of the latest report, even if the publisher refused it.
	Digest digest.Digest
	// Accepted is the latest accepted report, or nil. Refused is the reason why the publisher refused the latest
	// report, or nil.
	Accepted *bundle.AcceptedReport
	Refused  *refusal.Error
	// ArrivedAt is the time at which the publisher received the report in Accepted. After a restart, it is the creation
	// time in the report.
	ArrivedAt time.Time
	// ReadError is the error if the report could not be read although the registry is available.
	ReadError error
}

// IsFresh reports whether the publisher asked the registry less than maxAge ago, and no notification has arrived since
// then. notified is the current value of Runtime.NotifiedCount.
func (r Report) IsFresh(notified int64, maxAge time.Duration, now time.Time) bool {
	return r.NotifiedCount == notified && r.AskedAt.Add(maxAge).After(now)
}

// ContentDigest returns the digest of the latest report's content. The content excludes the report's creation time.
func (r Report) ContentDigest() digest.Digest {
	if r.Refused != nil || r.Accepted == nil || r.Accepted.Content == "" {
		return r.Digest
	}
	return r.Accepted.Content
}

// ArrivalTime returns the arrival time of a newly accepted report. status is the status in the runtime's Kyma.
func (r Report) ArrivalTime(status *v1beta2.RuntimeStatus, accepted bundle.AcceptedReport, now time.Time) time.Time {
	if last := r.Accepted; last != nil && IsSameKey(last.Key, accepted.Key) && last.Sequence == accepted.Sequence {
		return r.ArrivedAt // the same report, encoded in another way
	}
	return ingest.ArrivalTime(status, accepted, r.Accepted == nil, now)
}

// IsOvertaken reports whether the Kyma's status contains the data of a newer report with the same key. Another
// publisher has then read that report.
func (r Report) IsOvertaken(status *v1beta2.RuntimeStatus, now time.Time) bool {
	if r.Accepted == nil || status == nil || status.Key == nil || status.ReportSequence <= r.Accepted.Sequence ||
		plan.IsAhead(status.ReportSequence, now) {
		return false
	}
	thumbprint, err := trust.Thumbprint(r.Accepted.Key)
	return err == nil && thumbprint == status.Key.Thumbprint
}

// IsSameKey reports whether two public keys are equal.
func IsSameKey(a, b crypto.PublicKey) bool {
	known, is := a.(interface{ Equal(crypto.PublicKey) bool })
	return is && b != nil && known.Equal(b)
}
