package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

// budget limits the total size of all responses to requests with the same context.
type budget struct{ left atomic.Int64 }

type budgetKey struct{}

// withBudget returns a context whose requests can receive at most maxBytes bytes in total.
func withBudget(ctx context.Context, maxBytes int64) (context.Context, *budget) {
	b := &budget{}
	b.left.Store(maxBytes)
	return context.WithValue(ctx, budgetKey{}, b), b
}

// transport limits the size of each response body to maxBytes, and of all bodies to the context's budget.
type transport struct {
	next     http.RoundTripper
	maxBytes int64
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	b, _ := request.Context().Value(budgetKey{}).(*budget)
	if b == nil {
		tooLarge := fmt.Errorf("the response has more than %d bytes", t.maxBytes)
		return bounded.Transport{Next: t.next, MaxBytes: t.maxBytes, TooLarge: tooLarge}.RoundTrip(request)
	}
	tooLarge := fmt.Errorf("the objects have more than %d bytes: use a namespace or a selector", maxReadBytes)
	left := min(max(b.left.Load(), 0), t.maxBytes)
	response, err := bounded.Transport{Next: t.next, MaxBytes: left, TooLarge: tooLarge}.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = counted{response.Body, b}
	return response, nil
}

type counted struct {
	io.ReadCloser
	budget *budget
}

func (c counted) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	c.budget.left.Add(-int64(n))
	return n, err
}
