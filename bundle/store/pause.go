package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote/retry"
)

const (
	// maxPatience is the longest pause that a request of a client with retries waits for.
	maxPatience = 20 * time.Second
	// maxPause limits a pause. A proxy that asks for a year must not stop a fleet for that long.
	maxPause = 15 * time.Minute
	// maxPauses limits how many pauses are remembered, because components can name any number of hosts.
	maxPauses = 1_000
)

// retryPolicy repeats requests whose bodies can be sent again. pauses waits for longer Retry-After times.
var retryPolicy = &retry.GenericPolicy{
	Retryable: func(response *http.Response, err error) (bool, error) {
		if errors.As(err, new(*PausedError)) {
			return false, nil
		}
		return retry.DefaultPredicate(response, err)
	},
	Backoff: retry.DefaultBackoff, MinWait: 200 * time.Millisecond, MaxWait: 3 * time.Second, MaxRetry: 5,
}

// PausedError means that a request was not sent, because the registry asked its clients to wait.
type PausedError struct {
	// Host is the registry that asked for the pause, and Status is the HTTP status of its response. Until is the end of
	// the pause.
	Host   string
	Status int
	Until  time.Time
}

func (e *PausedError) Error() string {
	return fmt.Sprintf("%s returned %d %s and asked clients to wait until %s", e.Host, e.Status,
		http.StatusText(e.Status), e.Until.UTC().Format(time.RFC3339))
}

// pauses follows the Retry-After header of responses 429 and 503 for all requests of one client: until that time, it
// sends no request of the same kind to the same host. Reads and writes have separate pauses, because registries limit
// them separately, and because a full disk must not stop the reading of bundles.
type pauses struct {
	http.RoundTripper
	// patience is the longest time that a request waits for the end of a pause. A longer pause causes a *PausedError.
	patience time.Duration
	now      func() time.Time

	mu    sync.Mutex // guards until
	until map[pauseKey]*PausedError
}

type pauseKey struct {
	host   string
	writes bool
}

func newPauses(base http.RoundTripper) *pauses {
	return &pauses{RoundTripper: base, now: time.Now, until: map[pauseKey]*PausedError{}}
}

// RoundTrip waits for the end of a pause, sends the request, and records the pause that the response asks for.
func (p *pauses) RoundTrip(request *http.Request) (*http.Response, error) {
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

func (p *pauses) wait(ctx context.Context, key pauseKey) error {
	p.mu.Lock()
	paused := p.until[key]
	p.mu.Unlock()
	if paused == nil {
		return nil
	}
	left := paused.Until.Sub(p.now())
	switch {
	case left <= 0:
		return nil
	case left > p.patience:
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

// record stores the pause that a response asks for.
func (p *pauses) record(key pauseKey, response *http.Response) {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return
	}
	now := p.now()
	pause := retryAfter(response.Header.Get("Retry-After"), now)
	if pause <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.until) >= maxPauses {
		clear(p.until)
	}
	p.until[key] = &PausedError{Host: key.host, Status: response.StatusCode, Until: now.Add(min(pause, maxPause))}
}

// retryAfter reads the header's seconds or date; it returns 0 for any other text.
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

// Repeat calls a transfer again if the registry asked for a pause during an upload whose body cannot be sent a second
// time. The transfer must skip finished parts. The requests of the next call wait for the end of the pause.
func Repeat(transfer func() error) error {
	const attempts = 4
	var err error
	for range attempts {
		err = transfer()
		status, answered := StatusOf(err)
		if !answered || status != http.StatusTooManyRequests || errors.As(err, new(*PausedError)) {
			return err
		}
	}
	return err
}
