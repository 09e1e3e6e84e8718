package controller

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// rootAnnotator writes the root of trust's version and expiry to an annotation on the publisher's Lease. The zero
// value does nothing. A rootAnnotator is not safe for concurrent use.
type rootAnnotator struct {
	reader client.Reader
	writer client.Client
	lease  client.ObjectKey
	// lastText is the last known value of the annotation. logged is the last logged error.
	lastText, logged string
	readAt           time.Time
}

// The publisher checks the annotation at this interval, because a user can delete the annotation or the Lease.
const rootCheckInterval = 30 * time.Minute

// writeNote writes the annotation if the root of trust has changed. After an error, the next call tries again. Without
// leader election, the publisher does not have a Lease, and writeNote does nothing.
func (n *rootAnnotator) writeNote(ctx context.Context, root trust.Root, now time.Time) {
	text := fleet.RootNote{Epoch: root.Epoch, Version: root.Version, Expires: root.Expires.UTC(),
		Fleet: root.Fleet}.String()
	if n.writer == nil || root.Version == 0 || text == n.lastText && now.Sub(n.readAt) < rootCheckInterval {
		return
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease := &coordinationv1.Lease{}
		if err := n.reader.Get(ctx, n.lease, lease); err != nil {
			return err
		}
		if lease.Annotations[v1beta2.AnnotationRootOfTrust] == text {
			return nil
		}
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		lease.Annotations[v1beta2.AnnotationRootOfTrust] = text
		// Update fails with a conflict if the holder has renewed the Lease in the meantime, so no renewal is lost.
		return n.writer.Update(ctx, lease)
	})
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		if why := fmt.Sprintf("write the root of trust to Lease %s: %v", n.lease, err); why != n.logged {
			n.logged = why
			ctrl.LoggerFrom(ctx).WithName("keys").Info("failed to publish the expiry of the root of trust: " + why)
		}
		return
	}
	if err == nil {
		n.lastText, n.logged, n.readAt = text, "", now
	}
}
