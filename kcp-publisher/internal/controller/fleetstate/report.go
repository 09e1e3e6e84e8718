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

// Report is the newest report of a runtime as it was judged.
type Report struct {
	// Asked is when the registry was last asked for it, zero for never. Postponed is when it is asked for first.
	Asked, Postponed time.Time
	// Notified is Runtime.Notified before the registry was asked.
	Notified int64
	// Digest is that of the newest report, accepted or refused.
	Digest digest.Digest
	// Accepted is the newest report that was accepted, nil for none. Refused is why the newest one was refused.
	Accepted *bundle.AcceptedReport
	Refused  *refusal.Error
	// Arrived is when the accepted report arrived. After a restart it is when it was made: another publisher may have
	// received it.
	Arrived time.Time
	// Unread is why a registry that answers did not return the report.
	Unread error
}

// Fresh reports whether the registry need not be asked again for a report within a time, if it was notified that often.
func (r Report) Fresh(notified int64, within time.Duration, now time.Time) bool {
	return r.Notified == notified && r.Asked.Add(within).After(now)
}

// Content returns the digest of what the newest report contains. Reports that differ in their time only have the same.
func (r Report) Content() digest.Digest {
	if r.Refused != nil || r.Accepted == nil || r.Accepted.Content == "" {
		return r.Digest
	}
	return r.Accepted.Content
}

// ArrivalOf returns when a report arrived that follows this one.
func (r Report) ArrivalOf(status *v1beta2.RuntimeStatus, accepted bundle.AcceptedReport, now time.Time) time.Time {
	if last := r.Accepted; last != nil && SameKey(last.Key, accepted.Key) && last.Sequence == accepted.Sequence {
		return r.Arrived // the same in other bytes
	}
	return ingest.Arrived(status, accepted, r.Accepted == nil, now)
}

// Overtaken reports whether a status follows from a newer report of the same key. A sequence that is far ahead of this
// clock does not count, because reports that follow it are accepted with lower ones.
func (r Report) Overtaken(status *v1beta2.RuntimeStatus, now time.Time) bool {
	if r.Accepted == nil || status == nil || status.Key == nil || status.ReportSequence <= r.Accepted.Sequence || plan.Ahead(status.ReportSequence, now) {
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
