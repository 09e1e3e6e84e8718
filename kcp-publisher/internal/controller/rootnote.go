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

// rootNotes are where a publisher notes its root of trust. The zero value notes nothing. It is for one goroutine.
type rootNotes struct {
	reader client.Reader
	writer client.Client
	lease  client.ObjectKey
	// noted is what the Lease said when it was read last, read when that was, and complained why it could not be written.
	noted, complained string
	read              time.Time
}

// noteAgain is how long a note is taken to be there that was there: somebody may delete it, or the Lease.
const noteAgain = 30 * time.Minute

// note writes the end of the root of trust to the publisher's Lease, which whoever has no keys can read. Nothing waits
// for it: one that failed is written at the next look. Without leader election there is no Lease.
func (n *rootNotes) note(ctx context.Context, root trust.Root, now time.Time) {
	text := fleet.RootNote{Epoch: root.Epoch, Version: root.Version, Expires: root.Expires.UTC(), Fleet: root.Fleet}.String()
	if n.writer == nil || root.Version == 0 || text == n.noted && now.Sub(n.read) < noteAgain {
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
		return n.writer.Update(ctx, lease) // of the version that was read, or the holder's renewal would be lost
	})
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		if why := fmt.Sprintf("note the root of trust at Lease %s: %v", n.lease, err); why != n.complained {
			n.complained = why
			ctrl.LoggerFrom(ctx).WithName("keys").Info("the end of the root of trust is not shown to others: " + why)
		}
		return
	}
	if err == nil {
		n.noted, n.complained, n.read = text, "", now
	}
}
