package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

// budget limits the total size of all responses to requests with the same context, both encoded and decoded. If the
// decoded size exceeds maxSmallBytes, budget first acquires the Memory that all measurements share.
type budget struct {
	left, decoded atomic.Int64
	memory        *Memory

	mu      sync.Mutex // guards release
	release func()
}

type budgetKey struct{}

// withBudget returns a context whose requests can receive at most maxReadBytes bytes in total. The caller must call end
// once the decoded responses are not needed anymore.
func (p *Prober) withBudget(ctx context.Context) (with context.Context, end func()) {
	b := &budget{memory: p.options.Memory}
	b.left.Store(maxReadBytes)
	return context.WithValue(ctx, budgetKey{}, b), b.close
}

func (b *budget) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.release != nil {
		b.release()
		b.release = nil
	}
}

// acquire acquires memory once if the responses are large. It returns an error if they exceed maxDecodedBytes.
func (b *budget) acquire(ctx context.Context) (err error) {
	switch decoded := b.decoded.Load(); {
	case decoded <= maxSmallBytes:
		return nil
	case decoded > maxDecodedBytes:
		return fmt.Errorf("the objects need more than %d MiB of memory: use a namespace or a selector",
			maxDecodedBytes>>20)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.release == nil {
		b.release, err = b.memory.acquire(ctx)
	}
	return err
}

// transport limits each response body to maxBytes, and all bodies together to the context's budget.
type transport struct {
	next     http.RoundTripper
	maxBytes int64
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	b, _ := request.Context().Value(budgetKey{}).(*budget)
	if b == nil {
		tooLarge := fmt.Errorf("the response is more than %d bytes", t.maxBytes)
		return bounded.Transport{Next: t.next, MaxBytes: t.maxBytes, TooLarge: tooLarge}.RoundTrip(request)
	}
	tooLarge := fmt.Errorf("the objects are more than %d bytes: use a namespace or a selector", maxReadBytes)
	left := min(max(b.left.Load(), 0), t.maxBytes)
	response, err := bounded.Transport{Next: t.next, MaxBytes: left, TooLarge: tooLarge}.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = countingReader{response.Body, request.Context(), b}
	return response, nil
}

type countingReader struct {
	io.ReadCloser
	ctx    context.Context // the context of this response's request
	budget *budget
}

func (c countingReader) Read(into []byte) (int, error) {
	if err := c.budget.acquire(c.ctx); err != nil {
		return 0, err
	}
	n, err := c.ReadCloser.Read(into)
	c.budget.left.Add(-int64(n))
	c.budget.decoded.Add(decodedBytes(into[:n]))
	return n, err
}
