package preflight

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Limits of the difference between two clocks. Registry tokens are valid for five minutes, so with a larger difference
// they are never valid.
const (
	clockWarning = time.Minute
	clockFailed  = 5 * time.Minute
)

// Clock judges how far this machine's clock is ahead of another one. Negative means behind.
func Clock(than string, ahead time.Duration, known bool) Finding {
	check := "clock, against " + than
	if !known {
		return Warn(check, than+" did not send its time", "")
	}
	where := "ahead of"
	if ahead < 0 {
		ahead, where = -ahead, "behind"
	}
	message := fmt.Sprintf("%s %s that of %s", ahead.Round(time.Second), where, than)
	const advice = "synchronize both clocks, for example with NTP; docs/runbooks/wrong-clocks.md lists the effects " +
		"of wrong clocks"
	switch {
	case ahead > clockFailed:
		return Fail(check, message, advice)
	case ahead > clockWarning:
		return Warn(check, message, advice)
	}
	return passed(check, "less than a minute apart")
}

// Times records the time in the responses of a server.
type Times struct {
	now func() time.Time

	mu    sync.Mutex // guards the fields below
	ahead time.Duration
	known bool
}

// NewTimes returns Times that compare with a clock.
func NewTimes(now func() time.Time) *Times { return &Times{now: now} }

// Ahead returns how far the own clock is ahead of the server's, and whether the server has sent its time.
func (t *Times) Ahead() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ahead, t.known
}

// Wrap returns a transport that reads the Date header of every response.
func (t *Times) Wrap(base http.RoundTripper) http.RoundTripper { return timed{base, t} }

type timed struct {
	http.RoundTripper
	times *Times
}

func (w timed) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := w.times.now()
	response, err := w.RoundTripper.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		w.times.note(sent, w.times.now(), date)
	}
	return response, nil
}

// note keeps the smallest difference that the response allows: the server wrote the date between sent and received,
// within the named second.
func (t *Times) note(sent, received, date time.Time) {
	ahead := time.Duration(0)
	switch {
	case sent.After(date.Add(time.Second)):
		ahead = sent.Sub(date.Add(time.Second))
	case received.Before(date):
		ahead = received.Sub(date) // below 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ahead, t.known = ahead, true
}
