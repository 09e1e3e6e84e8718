package notify

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/measure"
)

const (
	// eachAtMost is how many connections a runtime has: its agent's, and that of the one which takes over from it. A
	// further one ends the oldest, which may well be of an agent that is gone.
	eachAtMost = 2
	// alive is after how long without a notification a comment is sent, and sweep how often it is looked who needs one.
	alive = bundle.NotificationsAliveSeconds * time.Second
	sweep = time.Second
	// writeTimeout is how long an agent may take to receive some bytes, which its connection has room for unless it has
	// not read for days.
	writeTimeout = 5 * time.Second
	// A connection ends after lasts and up to lastsSpread more: only a new one is asked for a password that counts.
	lasts, lastsSpread = 30 * time.Minute, 30 * time.Minute
	// connectsPerSecond and connectsAtOnce bound the connections of one runtime that are let in.
	connectsPerSecond, connectsAtOnce = 1, 5
)

// What is sent, as server-sent events.
var (
	event   = []byte("data: " + bundle.Notification + "\n\n")
	comment = []byte(":\n\n")
)

var (
	subscriptions = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_subscriptions", Help: "Open connections on which agents wait for notifications.", Leader: true,
	})
	sent = measure.Counter(measure.Definition{
		Name: "kyma_pull_publisher_notifications_sent_total", Help: "Notifications sent to agents.", Leader: true,
	})
	refused = measure.Counters[string](measure.Definition{
		Name:   "kyma_pull_publisher_subscriptions_refused_total",
		Help:   "Requests of agents for notifications that were refused: credentials (a wrong user or password), limited (too many refusals, or connections of one runtime in a second), full (too many connections) or standby (another replica works).",
		Labels: []string{"reason"},
	})
)

// Subscribers are the agents that are connected. It is safe for concurrent use.
type Subscribers struct {
	options Options

	mu    sync.Mutex // guards what follows
	of    map[string][]*subscriber
	count int
	ended bool
	// connects bounds how often runtimes connect, for those that did a short while ago.
	connects map[string]*rate.Limiter
}

// subscriber is one connection. Its fields are guarded by the mutex of Subscribers, but for the connection, which has
// one writer at a time.
type subscriber struct {
	runtime string
	conn    net.Conn
	// written is when something was written last, until when the connection ends.
	written, until time.Time
	// writing says that there is a goroutine which writes, owed that it is to send a notification after what it sends now.
	writing, owed bool
}

// Notify tells the agents of a runtime that there is something. It returns at once.
func (s *Subscribers) Notify(runtime string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.of[runtime] {
		if one.writing {
			one.owed = true // one notification tells as much as two
			continue
		}
		s.write(one, event)
	}
}

// Start sends comments until ctx ends, and closes all connections then.
func (s *Subscribers) Start(ctx context.Context) error {
	tick := time.NewTicker(sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.close()
			return nil
		case now := <-tick.C:
			s.keepAlive(now)
		}
	}
}

// NeedLeaderElection lets connections be closed at the end of any replica.
func (s *Subscribers) NeedLeaderElection() bool { return false }

func (s *Subscribers) keepAlive(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.of {
		for _, one := range all {
			switch {
			case one.writing:
			case !now.Before(one.until):
				s.drop(one)
			case now.Sub(one.written) >= alive:
				s.write(one, comment)
			}
		}
	}
	maps.DeleteFunc(s.connects, func(_ string, connects *rate.Limiter) bool { return connects.TokensAt(now) >= connectsAtOnce })
}

// mayConnect reports whether a runtime, whose password is right, may connect now. Each connection may end another one
// of that runtime.
func (s *Subscribers) mayConnect(runtime string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	connects, known := s.connects[runtime]
	if !known {
		connects = rate.NewLimiter(connectsPerSecond, connectsAtOnce)
		s.connects[runtime] = connects
	}
	return connects.Allow()
}

// add takes a connection whose request was answered with data still to be written. It reports whether there was room
// for it.
func (s *Subscribers) add(runtime string, conn net.Conn, first []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := s.of[runtime]
	if s.ended || s.count >= s.options.Connections && len(others) == 0 {
		return false
	}
	if len(others) > 0 && (len(others) >= eachAtMost || s.count >= s.options.Connections) {
		s.drop(others[0])
	}
	one := &subscriber{runtime: runtime, conn: conn, until: time.Now().Add(lasts + rand.N(lastsSpread))}
	s.of[runtime] = append(s.of[runtime], one)
	s.count++
	subscriptions.Add(1)
	s.write(one, first)
	return true
}

// full reports whether there is no room for a runtime's connection.
func (s *Subscribers) full(runtime string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.count >= s.options.Connections && len(s.of[runtime]) == 0
}

// write starts to write to a connection on which nobody else does. The mutex is held.
func (s *Subscribers) write(one *subscriber, data []byte) {
	one.writing, one.written = true, time.Now()
	go func() {
		for data != nil {
			_ = one.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			_, err := one.conn.Write(data)
			data = s.wrote(one, data, err)
		}
	}()
}

// wrote notes what became of a write, and returns what is to be written next, nil for nothing.
func (s *Subscribers) wrote(one *subscriber, data []byte, err error) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.drop(one)
		return nil
	}
	if &data[0] == &event[0] {
		sent.Inc()
	}
	if one.writing = one.owed; one.owed {
		one.owed = false
		return event
	}
	return nil
}

// drop closes a connection; closing may take a while with TLS, so that nobody waits for it. The mutex is held.
func (s *Subscribers) drop(one *subscriber) {
	others := s.of[one.runtime]
	for i := range others {
		if others[i] != one {
			continue
		}
		if s.of[one.runtime] = append(others[:i:i], others[i+1:]...); len(s.of[one.runtime]) == 0 {
			delete(s.of, one.runtime)
		}
		s.count--
		subscriptions.Add(-1)
		go func() { _ = one.conn.Close() }()
		return
	}
}

func (s *Subscribers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, all := range s.of {
		for _, one := range all {
			s.drop(one)
		}
	}
}
