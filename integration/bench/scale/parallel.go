package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// forEach calls the function do for all items, with as many concurrent calls as the publisher uses. It returns the
// elapsed time.
func forEach[T any](ctx context.Context, all []T, do func(context.Context, T) error) (time.Duration, error) {
	started := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, one := range all {
		group.Go(func() error { return do(ctx, one) })
	}
	err := group.Wait()
	return time.Since(started), err
}
