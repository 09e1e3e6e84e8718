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

// rootAnnotator writes the expiry of the root of trust to an annotation of the publisher's Lease. The zero value does
// nothing. It is not safe for concurrent use.
type rootAnnotator struct {
	reader client.Reader
	writer client.Client
	lease  client.ObjectKey
	// lastText is the annotation at the last read, and logged is the last logged error.
	lastText, logged string
	read             time.Time
}

// The annotation or the Lease can be deleted, so it is checked at this interval.
const rootCheckInterval = 30 * time.Minute

// note retries a failed write at the next check. Without leader election, it does nothing.
func (n *rootAnnotator) note(ctx context.Context, root trust.Root, now time.Time) {
	text := fleet.RootNote{Epoch: root.Epoch, Version: root.Version, Expires: root.Expires.UTC(),
		Fleet: root.Fleet}.String()
	if n.writer == nil || root.Version == 0 || text == n.lastText && now.Sub(n.read) < rootCheckInterval {
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
		return n.writer.Update(ctx, lease) // a conflict prevents the loss of a renewal by the holder
	})
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		if why := fmt.Sprintf("write the root of trust to Lease %s: %v", n.lease, err); why != n.logged {
			n.logged = why
			ctrl.LoggerFrom(ctx).WithName("keys").Info("failed to publish the expiry of the root of trust: " + why)
		}
		return
	}
	if err == nil {
		n.lastText, n.logged, n.read = text, "", now
	}
}
