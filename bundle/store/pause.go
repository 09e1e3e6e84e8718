package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote/retry"
)

const (
	// maxRetryAfter is the longest Retry-After time that a request waits for. If the Retry-After time is longer, the
	// request fails.
	maxRetryAfter = 20 * time.Second
	// maxPause limits the time that a Retry-After header can block requests. Otherwise, one wrong header could stop a
	// fleet.
	maxPause = 15 * time.Minute
	// maxPauses limits the number of hosts in memory, because component descriptors can contain any number of hosts.
	maxPauses = 1_000
)

// retryPolicy retries a failed request up to five times and waits at most 3 seconds before each retry. The type
// pauseTransport handles longer Retry-After times.
var retryPolicy = &retry.GenericPolicy{
	Retryable: func(response *http.Response, err error) (bool, error) {
		if errors.As(err, new(*PausedError)) {
			return false, nil
		}
		return retry.DefaultPredicate(response, err)
	},
	Backoff: retry.DefaultBackoff, MinWait: 200 * time.Millisecond, MaxWait: 3 * time.Second, MaxRetry: 5,
}

// withRetry returns a transport that retries failed requests.
func withRetry(base http.RoundTripper) http.RoundTripper {
	transport := retry.NewTransport(base)
	transport.Policy = func() retry.Policy { return retryPolicy }
	return transport
}

// pauseTransport delays requests after a response 429 or 503 with a Retry-After header. It delays all requests to the
// same host until the time in this header. It delays reads and writes separately, because registries limit them
// separately.
type pauseTransport struct {
	http.RoundTripper
	// maxWait is the longest time that RoundTrip waits. If the remaining time is longer, RoundTrip returns a
	// *PausedError.
	maxWait time.Duration
	now     func() time.Time

	mu          sync.Mutex // guards pausedUntil
	pausedUntil map[pauseKey]*PausedError
}

type pauseKey struct {
	host   string
	writes bool
}

func newPauses(base http.RoundTripper) *pauseTransport {
	return &pauseTransport{RoundTripper: base, now: time.Now, pausedUntil: map[pauseKey]*PausedError{}}
}

// RoundTrip waits until requests to the host are allowed again, sends the request, and stores the response's
// Retry-After time.
func (p *pauseTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	key := pauseKey{request.URL.Host, request.Method != http.MethodGet && request.Method != http.MethodHead}
	if err := p.wait(request.Context(), key); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	response, err := p.RoundTripper.RoundTrip(request)
	if err == nil {
		p.record(key, response)
	}
	return response, err
}

func (p *pauseTransport) wait(ctx context.Context, key pauseKey) error {
	p.mu.Lock()
	paused := p.pausedUntil[key]
	p.mu.Unlock()
	if paused == nil {
		return nil
	}
	left := paused.Until.Sub(p.now())
	switch {
	case left <= 0:
		return nil
	case left > p.maxWait:
		return paused
	}
	timer := time.NewTimer(left + rand.N(left/10+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (p *pauseTransport) record(key pauseKey, response *http.Response) {
	if !isOverloaded(response.StatusCode) {
		return
	}
	now := p.now()
	pause := retryAfter(response.Header.Get("Retry-After"), now)
	if pause <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pausedUntil) >= maxPauses {
		clear(p.pausedUntil)
	}
	p.pausedUntil[key] = &PausedError{Host: key.host, Status: response.StatusCode, Until: now.Add(min(pause, maxPause))}
}

func isOverloaded(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// retryAfter parses a Retry-After header, which contains seconds or a date. It returns 0 for other text.
//
// Source: RFC 9110, section 10.2.3.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return at.Sub(now)
	}
	return 0
}

// RetryPaused calls transfer again if the registry returned 429 or 503, or if it refused an upload that the next call
// sends in chunks. transfer must skip the parts that it has already transferred.
func RetryPaused(transfer func() error) error {
	const retries = 3
	err := retryRefused(transfer)
	for range retries {
		if !isPaused(err) {
			return err
		}
		err = transfer()
	}
	return err
}

// retryRefused calls upload. If the registry refused the upload but accepts chunks, retryRefused calls upload again,
// which then sends chunks. If the second call fails, too, retryRefused returns the error from the first call, or from
// the second call if the registry is overloaded.
func retryRefused(upload func() error) error {
	err := upload()
	if !isRefusedUpload(err) {
		return err
	}
	if again := upload(); again == nil || isPaused(again) {
		return again
	}
	return err
}

// isPaused reports whether the registry returned 429 or 503 and a retry is useful.
func isPaused(err error) bool {
	status, answered := StatusOf(err)
	return answered && isOverloaded(status) && !errors.As(err, new(*PausedError))
}
