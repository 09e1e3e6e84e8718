package notify

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/measure"
)

const (
	// maxPerRuntime is the maximum number of connections per runtime: one for its agent, and one for a new agent during
	// an agent upgrade. An additional connection closes the oldest one.
	maxPerRuntime = 2
	// commentInterval is the time after which an idle connection receives a comment.
	commentInterval = bundle.NotificationsAliveSeconds * time.Second
	sweepInterval   = time.Second
	// writeTimeout is the timeout for a write. A write waits only if the connection's buffer is full, because the agent
	// has not read for days.
	writeTimeout = 5 * time.Second
	// Each connection ends after maxConnectionAge plus a random time of at most maxAgeSpread, because only a new
	// connection checks the password again.
	maxConnectionAge, maxAgeSpread = 30 * time.Minute, 30 * time.Minute
	// connectsPerSecond and connectsAtOnce limit the accepted connections per runtime.
	connectsPerSecond, connectsAtOnce = 1, 5
)

// Server-sent events.
var (
	event   = []byte("data: " + bundle.Notification + "\n\n")
	comment = []byte(":\n\n")
)

var (
	subscriptions = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_subscriptions", Help: "Open connections on which agents wait for notifications.",
		Leader: true,
	})
	sent = measure.Counter(measure.Definition{
		Name: "kyma_pull_publisher_notifications_sent_total", Help: "Notifications sent to agents.", Leader: true,
	})
	refused = measure.Counters[string](measure.Definition{
		Name: "kyma_pull_publisher_subscriptions_refused_total",
		Help: "Refused notification requests from agents, by reason: credentials (a wrong user or password), " +
			"limited (too many refusals, or one runtime connects too often), full (too many connections) or " +
			"standby (another replica publishes for the runtime).",
		Labels: []string{"reason"},
	})
)

// Subscribers contains the connected agents. It is safe for concurrent use.
type Subscribers struct {
	options Options

	mu        sync.Mutex // guards the fields below
	byRuntime map[string][]*subscriber
	count     int
	ended     bool
	// connects limits the rate at which each runtime connects.
	connects map[string]*rate.Limiter
}

// subscriber is one connection. The mutex in Subscribers guards all fields except conn. Only one goroutine writes to
// conn at a time.
type subscriber struct {
	runtime string
	conn    net.Conn
	// written is the time of the last write. The field until is the time at which the connection ends.
	written, until time.Time
	// writing is true while a goroutine writes to the connection. The field owed is true if the goroutine must send
	// another notification afterwards.
	writing, owed bool
}

// Notify notifies a runtime's agents. It does not block.
func (s *Subscribers) Notify(runtime string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.byRuntime[runtime] {
		if one.writing {
			one.owed = true // one notification is sufficient for several bundles
			continue
		}
		s.write(one, event)
	}
}

// Start sends comments on idle connections until ctx ends, and then closes all connections.
func (s *Subscribers) Start(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
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

// NeedLeaderElection returns false, because every replica has connections.
func (s *Subscribers) NeedLeaderElection() bool { return false }

func (s *Subscribers) keepAlive(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.byRuntime {
		for _, one := range all {
			switch {
			case one.writing:
			case !now.Before(one.until):
				s.dropSubscriber(one)
			case now.Sub(one.written) >= commentInterval:
				s.write(one, comment)
			}
		}
	}
	maps.DeleteFunc(s.connects, func(_ string, connects *rate.Limiter) bool {
		return connects.TokensAt(now) >= connectsAtOnce
	})
}

// mayConnect reports whether the runtime may connect again. It limits the rate, because each connection can close
// another connection from the same runtime.
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

// add registers a runtime's connection and writes the greeting. It returns false if there are too many connections.
func (s *Subscribers) add(runtime string, conn net.Conn, greeting []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := s.byRuntime[runtime]
	if s.ended || s.count >= s.options.Connections && len(others) == 0 {
		return false
	}
	if len(others) > 0 && (len(others) >= maxPerRuntime || s.count >= s.options.Connections) {
		s.dropSubscriber(others[0])
	}
	one := &subscriber{runtime: runtime, conn: conn, until: time.Now().Add(maxConnectionAge + rand.N(maxAgeSpread))}
	s.byRuntime[runtime] = append(s.byRuntime[runtime], one)
	s.count++
	subscriptions.Add(1)
	s.write(one, greeting)
	return true
}

// isFull reports whether a new connection from the runtime would exceed the limit.
func (s *Subscribers) isFull(runtime string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.count >= s.options.Connections && len(s.byRuntime[runtime]) == 0
}

// write starts a goroutine that writes data to a connection. Another write must not be active. The caller holds the
// mutex.
func (s *Subscribers) write(one *subscriber, data []byte) {
	one.writing, one.written = true, time.Now()
	go func() {
		for data != nil {
			_ = one.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			_, err := one.conn.Write(data)
			data = s.recordWrite(one, data, err)
		}
	}()
}

// recordWrite records a write's result and returns the next data to write, or nil.
func (s *Subscribers) recordWrite(one *subscriber, data []byte, err error) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.dropSubscriber(one)
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

// dropSubscriber removes a connection and closes it in the background, because closing a TLS connection can take a
// while. The caller holds the mutex.
func (s *Subscribers) dropSubscriber(one *subscriber) {
	others := s.byRuntime[one.runtime]
	for i := range others {
		if others[i] != one {
			continue
		}
		if s.byRuntime[one.runtime] = append(others[:i:i], others[i+1:]...); len(s.byRuntime[one.runtime]) == 0 {
			delete(s.byRuntime, one.runtime)
		}
		s.count--
		subscriptions.Add(-1)
		go func() { _ = one.conn.Close() }()
		return
	}
}

func (s *Subscribers) close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.Disconnect(func(string) bool { return true })
}

// Disconnect closes the selected runtimes' connections. Their agents then look for another replica.
func (s *Subscribers) Disconnect(selected func(runtime string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for runtime, all := range s.byRuntime {
		if selected(runtime) {
			for _, one := range slices.Clone(all) {
				s.dropSubscriber(one)
			}
		}
	}
}
