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

// Report is the verified latest report of a runtime.
type Report struct {
	// Asked is when the publisher last read the report from the registry, or zero. Postponed is the time of a postponed
	// first read, or zero.
	Asked, Postponed time.Time
	// Notified is the value of Runtime.Notified before the registry was read.
	Notified int64
	// Digest is the digest of the latest report, accepted or refused.
	Digest digest.Digest
	// Accepted is the latest accepted report, or nil. Refused is the reason why the latest report was refused, or nil.
	Accepted *bundle.AcceptedReport
	Refused  *refusal.Error
	// Arrived is the time when the publisher received the accepted report. After a restart, it is the time in the
	// report.
	Arrived time.Time
	// Unread is the error of a failed read while the registry is up.
	Unread error
}

// Fresh reports whether the last read of the report is recent and no notification arrived since then. notified is the
// current number of notifications.
func (r Report) Fresh(notified int64, within time.Duration, now time.Time) bool {
	return r.Notified == notified && r.Asked.Add(within).After(now)
}

// Content returns the digest of the latest report's content, which excludes the time.
func (r Report) Content() digest.Digest {
	if r.Refused != nil || r.Accepted == nil || r.Accepted.Content == "" {
		return r.Digest
	}
	return r.Accepted.Content
}

// ArrivalOf returns the arrival time of the next report, accepted.
func (r Report) ArrivalOf(status *v1beta2.RuntimeStatus, accepted bundle.AcceptedReport, now time.Time) time.Time {
	if last := r.Accepted; last != nil && SameKey(last.Key, accepted.Key) && last.Sequence == accepted.Sequence {
		return r.Arrived // the same report with another encoding
	}
	return ingest.Arrived(status, accepted, r.Accepted == nil, now)
}

// Overtaken reports whether a Kyma's status is based on a newer report with the same key.
func (r Report) Overtaken(status *v1beta2.RuntimeStatus, now time.Time) bool {
	if r.Accepted == nil || status == nil || status.Key == nil || status.ReportSequence <= r.Accepted.Sequence ||
		plan.Ahead(status.ReportSequence, now) {
		return false
	}
	thumbprint, err := trust.Thumbprint(r.Accepted.Key)
	return err == nil && thumbprint == status.Key.Thumbprint
}

// SameKey reports whether two public keys are equal.
func SameKey(a, b crypto.PublicKey) bool {
	known, is := a.(interface{ Equal(crypto.PublicKey) bool })
	return is && b != nil && known.Equal(b)
}
