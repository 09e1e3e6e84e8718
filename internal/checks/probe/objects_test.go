package probe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConcurrentChecksShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reads{kept: map[selection]*read{}}
		var fetched atomic.Int32
		failure := error(nil)
		get := func(namespace string) ([]any, error) {
			return r.get(t.Context(), selection{kind: "Pod", namespace: namespace},
				func(context.Context) ([]any, error) {
					fetched.Add(1)
					time.Sleep(100 * time.Millisecond)
					return []any{namespace}, failure
				})
		}
		together := func(namespaces ...string) {
			t.Helper()
			var all sync.WaitGroup
			for _, namespace := range namespaces {
				all.Go(func() {
					if objects, err := get(namespace); err == nil {
						require.Equal(t, []any{namespace}, objects)
					}
				})
			}
			all.Wait()
		}
		count := func(want int32, why string) {
			t.Helper()
			if got := fetched.Swap(0); got != want {
				t.Errorf("%s: got %d reads, want %d", why, got, want)
			}
		}
		kept := func() int {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.kept)
		}
		together("a", "a", "a")
		count(1, "three checks at the same time")
		together("a", "b")
		count(1, "a cached and a new namespace")
		time.Sleep(sharedFor)
		together("a")
		count(1, "a namespace whose cached read expired")
		time.Sleep(2 * sharedFor)
		if n := kept(); n != 0 {
			t.Errorf("got %d cached reads after they expired, want 0", n)
		}
		failure = errors.New("the API server does not respond")
		together("a", "a")
		count(2, "two checks whose shared read failed")
		failure = nil
		time.Sleep(sharedFor)
		names := make([]string, 2*maxShared)
		for i := range names {
			names[i] = string(rune('a' + i))
		}
		together(names...)
		if n := kept(); n > maxShared {
			t.Errorf("%d reads are cached, want at most %d", n, maxShared)
		}
	})
}

func TestSharedReadObservesTheCallersTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reads{kept: map[selection]*read{}}
		slow := func(context.Context) ([]any, error) {
			time.Sleep(time.Minute)
			return nil, nil
		}
		go func() { _, _ = r.get(t.Context(), selection{}, slow) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := r.get(ctx, selection{}, slow)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
	})
}
