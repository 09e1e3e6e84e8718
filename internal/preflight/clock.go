package preflight

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Limits for the difference between two clocks. Registry tokens are valid for only five minutes.
const (
	clockWarning = time.Minute
	clockFailed  = 5 * time.Minute
)

// Clock returns the finding for the difference between this machine's clock and a server's clock. The duration ahead is
// negative if this machine's clock is behind. server describes the server in messages.
func Clock(server string, ahead time.Duration, known bool) Finding {
	check := "clock, against " + server
	if !known {
		return Warn(check, server+" did not send its time", "")
	}
	where := "ahead of"
	if ahead < 0 {
		ahead, where = -ahead, "behind"
	}
	message := fmt.Sprintf("this machine's clock is %s %s the clock of %s", ahead.Round(time.Second), where, server)
	const advice = "synchronize both clocks, for example with NTP; docs/runbooks/wrong-clocks.md lists the effects " +
		"of wrong clocks"
	switch {
	case ahead > clockFailed:
		return Fail(check, message, advice)
	case ahead > clockWarning:
		return Warn(check, message, advice)
	}
	return newPassed(check, "the clocks differ by less than a minute")
}

// Times compares this machine's clock with the Date header in a server's responses.
type Times struct {
	now func() time.Time

	mu    sync.Mutex // guards the fields below
	ahead time.Duration
	known bool
}

// NewTimes returns a Times. The function now returns this machine's time.
func NewTimes(now func() time.Time) *Times { return &Times{now: now} }

// Ahead returns how far this machine's clock is ahead of the server's clock. It returns false if the difference is
// unknown.
func (t *Times) Ahead() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ahead, t.known
}

// Wrap returns a transport that records every response's Date header.
func (t *Times) Wrap(base http.RoundTripper) http.RoundTripper { return timedTransport{base, t} }

type timedTransport struct {
	http.RoundTripper
	times *Times
}

func (w timedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := w.times.now()
	response, err := w.RoundTripper.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		w.times.record(sent, w.times.now(), date)
	}
	return response, nil
}

// record stores the smallest clock difference that explains a response's Date header. The header does not contain
// fractions of a second.
func (t *Times) record(sent, received, date time.Time) {
	ahead := time.Duration(0)
	switch {
	case sent.After(date.Add(time.Second)):
		ahead = sent.Sub(date.Add(time.Second))
	case received.Before(date):
		ahead = received.Sub(date) // negative
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ahead, t.known = ahead, true
}
