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
	// AskedAt is the time of the publisher's last request for the digest of the runtime's latest report, or zero.
	// PostponedTo is the time to which this process has postponed its first request, or zero.
	AskedAt, PostponedTo time.Time
	// NotifiedCount is the value that Runtime.NotifiedCount had at the time AskedAt.
	NotifiedCount int64
	// Digest is the digest of the latest report, even if the publisher refused it.
	Digest digest.Digest
	// Accepted is the latest accepted report, or nil. Refused is the reason why the publisher refused the latest
	// report, or nil.
	Accepted *bundle.AcceptedReport
	Refused  *refusal.Error
	// ArrivedAt is the time at which this process received the report in Accepted. If the report is older than the
	// process, it is the creation time in the report.
	ArrivedAt time.Time
	// ReadError is the error if the report could not be read although the registry is available.
	ReadError error
}

// IsFresh reports whether r can be used without a request to the registry. This is the case if the last request was
// less than maxAge ago and no notification about a new report has arrived since then. notified is the current value of
// Runtime.NotifiedCount.
func (r Report) IsFresh(notified int64, maxAge time.Duration, now time.Time) bool {
	return r.NotifiedCount == notified && r.AskedAt.Add(maxAge).After(now)
}

// ContentDigest returns the digest of the latest report's content, without the report's creation time. Reports that
// differ only in this time have the same ContentDigest.
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

// IsOvertaken reports whether another publisher process has read a newer report than r. In this case, the Kyma's status
// contains a higher sequence number and the same agent key.
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
