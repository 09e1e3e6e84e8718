package drift

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// kindWatch is the watch for one kind.
type kindWatch struct {
	Version     string
	started     time.Time
	stop        context.CancelFunc
	synced      cache.InformerSynced
	objects     cache.Store
	refused     atomic.Pointer[apierrors.StatusError] // error for a watch that the API server forbids
	lastFailure atomic.Int64                          // in Unix nanoseconds
	// unserved counts the consecutive failures that occurred because the API server does not serve the version.
	unserved atomic.Int32
}

// outdatedAfterFailure is how long the agent treats a watch's objects as outdated after the watch fails.
const outdatedAfterFailure = 2 * time.Minute

// handleError handles an informer error. It does not log errors that are expected while a CRD is being deleted or
// restored, or because of a missing permission. unserved is true for the first error that shows that the API server
// stopped serving the version.
func (w *kindWatch) handleError(ctx context.Context, r *cache.Reflector, err error) (unserved bool) {
	var refused *apierrors.StatusError
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		log.FromContext(ctx).V(1).Info("the API server stopped serving a kind", "error", err.Error())
	case apierrors.IsForbidden(err) && !w.synced() && errors.As(err, &refused):
		w.refused.Store(refused)
	default:
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
	return w.becameUnserved(err, time.Now())
}

// maxUnservedFailures is the number of consecutive failures after which a version counts as unserved. A starting API
// server can fail to serve a version for a moment.
const maxUnservedFailures = 3

// becameUnserved records a failure. It returns true for the first failure that shows that the API server stopped
// serving the watched version.
func (w *kindWatch) becameUnserved(err error, now time.Time) bool {
	before := w.lastFailure.Swap(now.UnixNano())
	if now.Sub(time.Unix(0, before)) > outdatedAfterFailure {
		w.unserved.Store(0)
	}
	if !apierrors.IsNotFound(err) {
		w.unserved.Store(0)
		return false
	}
	return w.unserved.Add(1) == maxUnservedFailures
}
