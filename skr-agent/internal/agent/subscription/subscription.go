// Package subscription keeps a connection to the publisher's notification server, which sends server-sent events.
// Each event triggers a registry poll.
//
// The package limits the number of polls, the memory and the reconnects, because the server can be hostile or broken.
// Regular polls continue without a connection.
package subscription

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/logonce"
)

// Limits for the notification server.
const (
	pollSpacing       = time.Second
	pollBurst         = 5
	pollInterval      = 10 * time.Second // minimum time between polls; pollBurst polls are allowed without a delay
	linesPerSecond    = 10
	lineBurst         = 100
	maxLineBytes      = 256
	silenceTimeout    = 100 * time.Second // three times the server's keep-alive interval, plus a margin
	reconnectSpread   = 10 * time.Second
	backoffResetAfter = time.Minute
	// Only one publisher replica serves this runtime. If a connection reaches another replica, the agent connects again
	// after about searchPause. After maxSearches attempts, it uses the same growing intervals as for other failures.
	searchPause = time.Second
	maxSearches = 20
)

// Options configure a Subscription.
type Options struct {
	// Open connects to the notification server.
	Open func(ctx context.Context) (io.ReadCloser, error)
	// Notify requests a poll. It must not block.
	Notify func()
	Log    logr.Logger
}

// Subscription is a connection to the notification server that reconnects after failures.
type Subscription struct {
	options Options
	pending chan struct{} // a one-element buffer: full while a poll is pending
	logged  logonce.Memo
}

const loggedConnection = "connection"

var (
	connected = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_notifications_connected",
		Help: "1 if the agent is connected to the publisher's notification server, 0 if it only polls. Absent if no " +
			"URL is configured.", Leader: true,
	})
	received = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_notifications_received_total", Help: "Notifications received from the publisher.",
		Leader: true,
	})
)

// New returns a Subscription. Start connects it.
func New(options Options) *Subscription {
	return &Subscription{options: options, pending: make(chan struct{}, 1)}
}

// Start keeps a connection open until ctx is done. It always returns nil.
func (s *Subscription) Start(ctx context.Context) error {
	go s.forwardPolls(ctx)
	backoff, searches := newBackoff(), 0
	for ctx.Err() == nil {
		began := time.Now()
		err := s.connect(ctx)
		if ctx.Err() != nil {
			return nil
		}
		// Do not log errEnded, because proxies close long connections. Log only failed connections.
		if !errors.Is(err, errEnded) && s.logged.Update(loggedConnection, "not connected") {
			s.options.Log.Info("failed to connect to the publisher's notification server, polling only", "reason",
				err.Error())
		}
		var pause time.Duration
		switch {
		case time.Since(began) >= backoffResetAfter:
			// Spread the reconnects, because a publisher restart closes its whole fleet's connections at once.
			backoff, searches, pause = newBackoff(), 0, rand.N(reconnectSpread)
		case errors.Is(err, store.ErrOtherReplica) && searches < maxSearches:
			searches, pause = searches+1, wait.Jitter(searchPause, 1)
		default:
			pause = backoff.Step()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 100, Cap: 2 * time.Minute}
}

// connect opens a connection and reads events until the connection ends. It returns the reason why the connection
// ended.
func (s *Subscription) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := s.options.Open(ctx)
	if err != nil {
		connected.Set(0)
		return err
	}
	defer response.Close()
	connected.Set(1)
	defer connected.Set(0)
	if s.logged.Update(loggedConnection, "connected") {
		s.options.Log.Info("connected to the publisher's notification server")
	}
	// Poll once, because a bundle can have been published before the connection was open.
	s.requestPoll()
	silence := time.AfterFunc(silenceTimeout, cancel)
	defer silence.Stop()
	err = s.read(response, func() { silence.Reset(silenceTimeout) })
	if ctx.Err() != nil {
		return errEnded
	}
	return err
}

// errEnded is the error for a connection that ended normally.
var errEnded = errors.New("the connection was closed")

// read reads a response until it ends or exceeds a limit. It calls onLine for each line.
func (s *Subscription) read(response io.Reader, onLine func()) error {
	lines := bufio.NewScanner(response)
	lines.Buffer(make([]byte, 0, maxLineBytes), maxLineBytes)
	allowed := rate.NewLimiter(linesPerSecond, lineBurst)
	for lines.Scan() {
		if !allowed.Allow() {
			return fmt.Errorf("the publisher sent more than %d lines per second", linesPerSecond)
		}
		onLine()
		// Every event requests a poll. Its data does not matter.
		if bytes.HasPrefix(lines.Bytes(), []byte("data:")) {
			received.Inc()
			s.requestPoll()
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("the publisher sent a line that exceeds %d bytes", maxLineBytes)
	}
	return errEnded
}

// requestPoll requests a poll.
func (s *Subscription) requestPoll() {
	select {
	case s.pending <- struct{}{}:
	default: // a poll is already pending
	}
}

// forwardPolls calls Notify for pending polls, within the rate limits.
func (s *Subscription) forwardPolls(ctx context.Context) {
	spacing, sustained := rate.NewLimiter(rate.Every(pollSpacing), 1),
		rate.NewLimiter(rate.Every(pollInterval), pollBurst)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.pending:
		}
		if spacing.Wait(ctx) != nil || sustained.Wait(ctx) != nil {
			return
		}
		select {
		case <-s.pending: // the poll also covers notifications that arrived during the wait
		default:
		}
		s.options.Notify()
	}
}
