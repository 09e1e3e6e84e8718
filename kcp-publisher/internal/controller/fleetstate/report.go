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
	// Asked is when the publisher last read the report from the registry, or zero. Postponed is the time to which the
	// first read was postponed, or zero.
	Asked, Postponed time.Time
	// Notified is the value of Runtime.Notified before the registry was read.
	Notified int64
	// Digest is the digest of the latest report, accepted or refused.
	Digest digest.Digest
	// Accepted is the latest accepted report, or nil. Refused is the refusal of the latest report, or nil.
	Accepted *bundle.AcceptedReport
	Refused  *refusal.Error
	// Arrived is the time when the accepted report arrived. After a restart it is the time in the report, because
	// another publisher may have received the report.
	Arrived time.Time
	// Unread is the error of a failed read if the registry is up but did not return the report.
	Unread error
}

// Fresh reports whether the report was read from the registry within a duration, and no notification about the runtime
// has arrived since that read. notified is the current number of notifications.
func (r Report) Fresh(notified int64, within time.Duration, now time.Time) bool {
	return r.Notified == notified && r.Asked.Add(within).After(now)
}

// Content returns the digest of the latest report's content. Reports that differ only in time have the same content.
func (r Report) Content() digest.Digest {
	if r.Refused != nil || r.Accepted == nil || r.Accepted.Content == "" {
		return r.Digest
	}
	return r.Accepted.Content
}

// ArrivalOf returns the arrival time of accepted, the report that follows r.
func (r Report) ArrivalOf(status *v1beta2.RuntimeStatus, accepted bundle.AcceptedReport, now time.Time) time.Time {
	if last := r.Accepted; last != nil && SameKey(last.Key, accepted.Key) && last.Sequence == accepted.Sequence {
		return r.Arrived // the same report, encoded differently
	}
	return ingest.Arrived(status, accepted, r.Accepted == nil, now)
}

// Overtaken reports whether a Kyma's status is based on a newer report, signed with the same key. It ignores a sequence
// far ahead of this process's clock, because the publisher accepts lower sequences after such a report.
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
