package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

const (
	// syncTimeout is the time from the first failed read until `status --watch` gives up its start.
	syncTimeout = 10 * time.Second
	// outageEnd is the time without a failed read after which an outage has ended. It is longer than a watch's longest
	// pause between two attempts, which is one minute.
	outageEnd = 90 * time.Second
)

// newWatchErrors returns a handler for the errors of a cache, and a channel that receives these errors. The handler
// ignores expired and closed watches, because the cache renews them. It drops an error while the channel is full.
func newWatchErrors(ctx context.Context) (toolscache.WatchErrorHandlerWithContext, <-chan error) {
	failed := make(chan error, 1)
	return func(_ context.Context, _ *toolscache.Reflector, err error) {
		isClosed := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if isClosed || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || ctx.Err() != nil {
			return
		}
		select {
		case failed <- err:
		default:
		}
	}, failed
}

// waitForSync waits until the cache has read all objects. It returns an error if the API server denies a request, or if
// the cache is not synced within syncTimeout after another error.
func waitForSync(ctx context.Context, sync func(context.Context) bool, failed <-chan error) error {
	synced := make(chan bool, 1)
	go func() { synced <- sync(ctx) }()
	var last error
	var timeout <-chan time.Time
	for {
		select {
		case isSynced := <-synced:
			if !isSynced {
				return errors.New("watch the control plane: interrupted before the cache was synced")
			}
			return nil
		case last = <-failed:
			if apierrors.IsForbidden(last) || apierrors.IsUnauthorized(last) {
				return fmt.Errorf("watch the control plane: %w", last)
			}
			if timeout == nil {
				timeout = time.After(syncTimeout)
			}
		case <-timeout:
			return fmt.Errorf("watch the control plane: %w", last)
		}
	}
}

// outage prints one line when reads from the control plane start to fail, and one when they work again.
type outage struct {
	out io.Writer
	// failedAt is the time of the last failed read, or zero if no outage is active.
	failedAt time.Time
}

// record records the result of a read.
func (o *outage) record(err error, now time.Time) {
	switch {
	case err != nil:
		if o.failedAt.IsZero() {
			cli.Printf(o.out, "%s  cannot read the control plane, so the output may be outdated: %s\n",
				now.Format(time.TimeOnly), bundle.PrintableLine(err.Error()))
		}
		o.failedAt = now
	case !o.failedAt.IsZero() && now.Sub(o.failedAt) >= outageEnd:
		cli.Printf(o.out, "%s  the control plane is readable again\n", now.Format(time.TimeOnly))
		o.failedAt = time.Time{}
	}
}
