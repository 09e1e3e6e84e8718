// Package subscription keeps a connection to the publisher on which it says that there is something in the registry for
// this runtime. What comes in are server-sent events; what goes out are calls of one function, which asks for a poll.
//
// A notification is a hint: it carries nothing, and polls go on beside it as if there were none. An endpoint that is
// silent, gone, hostile or broken therefore costs no more than what the limits here let it: a few polls a minute, some
// bytes of memory, and a connection that is tried again ever more seldom.
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

	"github.com/kyma-pull/kyma-pull/internal/measure"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/logonce"
)

// Limits of what an endpoint can make an agent do. Notifications follow each other closely in a rollout, and seldom
// else.
const (
	pollSpacing     = time.Second
	pollsAtOnce     = 5
	pollInterval    = 10 * time.Second // of those beyond
	linesPerSecond  = 10
	linesAtOnce     = 100
	maxLineBytes    = 256
	silenceTimeout  = 100 * time.Second // three comments and some more
	reconnectSpread = 10 * time.Second
	steadyAfter     = time.Minute
)

// Options are what a Subscription needs.
type Options struct {
	// Open connects to the endpoint, for as long as its context lasts.
	Open func(ctx context.Context) (io.ReadCloser, error)
	// Notify asks for a poll. It returns at once.
	Notify func()
	Log    logr.Logger
}

// Subscription is a connection that is made again whenever it ends.
type Subscription struct {
	options Options
	pending chan struct{} // holds one when a poll is to be asked for
	said    logonce.Memo
}

// saidConnection is the one subject of Subscription.said.
const saidConnection = "connection"

var (
	connected = measure.Gauge(measure.Definition{
		Name: "kyma_pull_agent_notifications_connected",
		Help: "Whether the agent is connected to the publisher's notifications (1) or only polls (0); none where it is told no URL of them.", Leader: true,
	})
	received = measure.Counter(measure.Definition{
		Name: "kyma_pull_agent_notifications_received_total", Help: "Notifications of the publisher.", Leader: true,
	})
)

// New returns a Subscription that is not connected.
func New(options Options) *Subscription {
	return &Subscription{options: options, pending: make(chan struct{}, 1)}
}

// Start stays connected until ctx ends. It never fails.
func (s *Subscription) Start(ctx context.Context) error {
	go s.passOn(ctx)
	backoff := newBackoff()
	for ctx.Err() == nil {
		began := time.Now()
		err := s.connect(ctx)
		if ctx.Err() != nil {
			return nil
		}
		// Proxies end connections that last; only one that cannot be made again is worth a line.
		if !errors.Is(err, errEnded) && s.said.Changed(saidConnection, "not connected") {
			s.options.Log.Info("not connected to notifications of the publisher, polling only", "reason", err.Error())
		}
		pause := backoff.Step()
		if time.Since(began) >= steadyAfter {
			// A publisher that restarts ends the connections of its whole fleet at once.
			backoff, pause = newBackoff(), rand.N(reconnectSpread)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// newBackoff returns how long to wait after a connection that failed.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 100, Cap: 2 * time.Minute}
}

// connect reads one connection to its end, and returns why it ended.
func (s *Subscription) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, err := s.options.Open(ctx)
	if err != nil {
		connected.Set(0)
		return err
	}
	defer answer.Close()
	connected.Set(1)
	defer connected.Set(0)
	if s.said.Changed(saidConnection, "connected") {
		s.options.Log.Info("connected to notifications of the publisher")
	}
	// What was pushed while nobody listened was told to nobody.
	s.ask()
	silence := time.AfterFunc(silenceTimeout, cancel)
	defer silence.Stop()
	err = s.read(answer, func() { silence.Reset(silenceTimeout) })
	if ctx.Err() != nil {
		return errEnded
	}
	return err
}

// errEnded says that a connection ended as all do.
var errEnded = errors.New("the connection ended")

// read takes the lines of an answer until there are no more, or one that no publisher sends.
func (s *Subscription) read(answer io.Reader, heard func()) error {
	lines := bufio.NewScanner(answer)
	lines.Buffer(make([]byte, 0, maxLineBytes), maxLineBytes)
	allowed := rate.NewLimiter(linesPerSecond, linesAtOnce)
	for lines.Scan() {
		if !allowed.Allow() {
			return fmt.Errorf("the publisher sent more than %d lines a second", linesPerSecond)
		}
		heard()
		// Whatever the event is, there is only one thing to do.
		if bytes.HasPrefix(lines.Bytes(), []byte("data:")) {
			received.Inc()
			s.ask()
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("the publisher sent a line of more than %d bytes", maxLineBytes)
	}
	return errEnded
}

// ask has a poll asked for once the limits allow one.
func (s *Subscription) ask() {
	select {
	case s.pending <- struct{}{}:
	default: // one is to come, and finds whatever this one would
	}
}

// passOn asks for polls within the limits, until ctx ends.
func (s *Subscription) passOn(ctx context.Context) {
	spacing, sustained := rate.NewLimiter(rate.Every(pollSpacing), 1), rate.NewLimiter(rate.Every(pollInterval), pollsAtOnce)
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
		case <-s.pending: // the poll finds what was said meanwhile, too
		default:
		}
		s.options.Notify()
	}
}
