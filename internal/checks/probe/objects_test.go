package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

func TestConcurrentChecksShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := readCache{cachedReads: map[objectSelection]*cachedRead{}}
		var fetched atomic.Int32
		failure, bytes := error(nil), int64(0)
		get := func(namespace string) ([]any, error) {
			return r.get(t.Context(), objectSelection{kind: "Pod", namespace: namespace},
				func(context.Context) ([]any, int64, error) {
					fetched.Add(1)
					time.Sleep(100 * time.Millisecond)
					return []any{namespace}, bytes, failure
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
			return len(r.cachedReads)
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
		bytes = maxSharedBytes + 1
		together("large")
		if n := kept(); n != 0 {
			t.Errorf("got %d cached reads after a large one, want 0", n)
		}
		fetched.Store(0)
		bytes = 0
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

func TestSharedReadRespectsEachCallersTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := readCache{cachedReads: map[objectSelection]*cachedRead{}}
		slow := func(context.Context) ([]any, int64, error) {
			time.Sleep(time.Minute)
			return nil, 0, nil
		}
		go func() { _, _ = r.get(t.Context(), objectSelection{}, slow) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := r.get(ctx, objectSelection{}, slow)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
	})
}

func TestObjectsOfACheckAreLimited(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("x", 900<<10)
	for i := range 11 {
		require.NoError(t, w.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprint("large-", i)},
			Data:       map[string]string{"data": large},
		}))
	}
	m := w.measure(fleet.Check{Timeout: metav1.Duration{Duration: time.Minute}, CEL: &fleet.CELCheck{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: w.namespace, Expression: "objects.size() > 0",
	}})
	require.Equal(t, checks.Unknown, m.Verdict)
	require.Contains(t, m.Message, "the objects are more than 8388608 bytes: use a namespace or a selector")
}
