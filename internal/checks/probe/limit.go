package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

// budget limits the bytes of all responses to the requests with one context.
type budget struct{ left atomic.Int64 }

type budgetKey struct{}

// withBudget returns a context whose requests can receive at most maxBytes bytes in total.
func withBudget(ctx context.Context, maxBytes int64) (context.Context, *budget) {
	b := &budget{}
	b.left.Store(maxBytes)
	return context.WithValue(ctx, budgetKey{}, b), b
}

// transport limits the size of response bodies to maxBytes, and to the budget of the request's context.
type transport struct {
	next     http.RoundTripper
	maxBytes int64
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, limit := io.Reader(response.Body), t.maxBytes
	tooLarge := fmt.Errorf("the response has more than %d bytes", t.maxBytes)
	if b, _ := request.Context().Value(budgetKey{}).(*budget); b != nil {
		if left := max(b.left.Load(), 0); left < limit {
			limit, tooLarge = left, fmt.Errorf("the objects have more than %d bytes: use a namespace or a selector",
				maxReadBytes)
		}
		body = counted{body, b}
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{bounded.NewReader(body, limit, tooLarge), response.Body}
	return response, nil
}

// counted subtracts the bytes that are read from a budget.
type counted struct {
	io.Reader
	budget *budget
}

func (c counted) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.budget.left.Add(-int64(n))
	return n, err
}
