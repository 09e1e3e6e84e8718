package controller

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// expiryNotices are how long before its end an Event says that the root of trust expires, and that it has.
var expiryNotices = []time.Duration{30 * 24 * time.Hour, 14 * 24 * time.Hour, 7 * 24 * time.Hour, 3 * 24 * time.Hour, 24 * time.Hour, 0}

// noticeDue reports whether one of the times for a notice came between two looks. The first look of a process, before
// which there is none, makes no notice: a restart would repeat it.
func noticeDue(before, now, expires time.Time) bool {
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

// lease is the publisher's own: what concerns no runtime is told of it.
func lease(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: namespace, Name: cmp.Or(name, LeaseName)}
}

// LeaseName is that of a publisher without a selector.
const LeaseName = "kcp-publisher.kyma-pull.dev"

// announceExpiry makes an Event where a notice is due.
func (k *Keys) announceExpiry(root trust.Root, before, now time.Time) {
	if k.Events == nil || !noticeDue(before, now, root.Expires) {
		return
	}
	what := fmt.Sprintf("root of trust %d expires at %s, after which no agent accepts a bundle", root.Version, root.Expires.UTC().Format(time.RFC3339))
	if !now.Before(root.Expires) {
		what = fmt.Sprintf("root of trust %d expired at %s: no agent accepts a bundle", root.Version, root.Expires.UTC().Format(time.RFC3339))
	}
	k.Events.Eventf(lease(k.Namespace, k.Lease), nil, corev1.EventTypeWarning, v1beta2.ReasonRootExpires, "Keys", "%s", noted(what+": renew it with kcp-publisher keys rotate"))
}
