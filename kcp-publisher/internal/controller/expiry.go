package controller

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// expiryNotices lists the times at which the publisher emits an Event, relative to the expiry of the root of trust.
// For example, the first Event is 30 days before the expiry.
var expiryNotices = []time.Duration{
	30 * 24 * time.Hour, 14 * 24 * time.Hour, 7 * 24 * time.Hour, 3 * 24 * time.Hour, 24 * time.Hour, 0,
}

// isNoticeDue reports whether one of the times in expiryNotices has passed since the previous check. before is the
// time of the previous check. At the first check, before is zero and isNoticeDue returns false, so that a restarted
// process does not repeat an Event.
func isNoticeDue(before, now, expires time.Time) bool {
	if before.IsZero() {
		return false
	}
	for _, ahead := range expiryNotices {
		if at := expires.Add(-ahead); before.Before(at) && !now.Before(at) {
			return true
		}
	}
	return false
}

func (k *Keys) announceExpiry(root trust.Root, before, now time.Time) {
	if k.Events == nil || !isNoticeDue(before, now, root.Expires) {
		return
	}
	what := fmt.Sprintf("root of trust version %d expires at %s: agents then accept no bundles", root.Version,
		root.Expires.UTC().Format(time.RFC3339))
	if !now.Before(root.Expires) {
		what = fmt.Sprintf("root of trust version %d expired at %s: agents accept no bundles", root.Version,
			root.Expires.UTC().Format(time.RFC3339))
	}
	k.Events.Eventf(leaseReference(k.Namespace, k.Lease), nil, corev1.EventTypeWarning, v1beta2.ReasonRootExpires,
		"Keys", "%s",
		eventNote(what+": renew it with kcp-publisher keys rotate"))
}
