package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var tight = Limits{
	Connections: 8, HeaderBytes: 1 << 10, BodyBytes: 64 << 10, AllBodiesBytes: 128 << 10, Read: 200 * time.Millisecond,
	Write: 10 * time.Second,
}

// started is a server that reads request bodies and counts concurrent connections.
type started struct {
	address       string
	open, most    atomic.Int64
	handled, read atomic.Int64
	mostHandled   atomic.Int64
}

func raise(most *atomic.Int64, to int64) {
	for {
		if now := most.Load(); now >= to || most.CompareAndSwap(now, to) {
			return
		}
	}
}

func start(t *testing.T, limits Limits) *started {
	t.Helper()
	s := &started{}
	server := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raise(&s.mostHandled, s.handled.Add(1))
		defer s.handled.Add(-1)
		n, err := io.Copy(io.Discard, r.Body)
		s.read.Add(n)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, "fine")
	}), limits)
	listener, err := Listen(t.Context(), "127.0.0.1:0", nil, limits)
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(counted{listener, s}) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return s
}

// counted counts open connections. It decrements the count before it closes a connection, because the server can
// accept the next connection immediately afterwards.
type counted struct {
	net.Listener
	of *started
}

func (c counted) Accept() (net.Conn, error) {
	connection, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	raise(&c.of.most, c.of.open.Add(1))
	return &countedConn{Conn: connection, closing: func() { c.of.open.Add(-1) }}, nil
}

type countedConn struct {
	net.Conn
	once    sync.Once
	closing func()
}

func (c *countedConn) Close() error {
	c.once.Do(c.closing)
	return c.Conn.Close()
}

// send sends the parts over a new connection and returns the status line of the response, or "" if no response is
// received.
func (s *started) send(t *testing.T, parts ...string) string {
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(30 * time.Second))
	for _, part := range parts {
		if _, err := io.WriteString(connection, part); err != nil {
			break // the server can close the connection after its response
		}
	}
	line, _ := bufio.NewReader(connection).ReadString('\n')
	return strings.TrimSpace(line)
}

func TestServerEnforcesItsLimits(t *testing.T) {
	s := start(t, tight)
	const head = "POST / HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct {
		parts []string
		want  string
	}{
		"valid request":            {[]string{head + "Content-Length: 5\r\n\r\nhello"}, "200"},
		"too large Content-Length": {[]string{head + "Content-Length: 999999999\r\n\r\n"}, "413"},
		"too large chunked body": {
			[]string{head + "Transfer-Encoding: chunked\r\n\r\n20000\r\n", strings.Repeat("x", 0x20000),
				"\r\n0\r\n\r\n"}, "400",
		},
		"too large header": {
			[]string{head + "X: " + strings.Repeat("x", 16<<10) + "\r\n\r\n"}, "431",
		},
		"incomplete header": {[]string{head}, ""},
		"incomplete body":   {[]string{head + "Content-Length: 5\r\n\r\nhe"}, "400"},
		"no request":        {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := s.send(t, c.parts...); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSlowClientsCannotExceedLimits(t *testing.T) {
	s := start(t, tight)
	var group sync.WaitGroup
	for i := range 60 {
		group.Go(func() {
			if i%2 == 0 {
				s.send(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Le")
				return
			}
			s.send(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\nslow")
		})
	}
	group.Wait()
	if got := s.most.Load(); got > int64(tight.Connections) {
		t.Errorf("got %d concurrent connections, want at most %d", got, tight.Connections)
	}
	if got := s.mostHandled.Load(); got > tight.AllBodiesBytes/tight.BodyBytes {
		t.Errorf("got %d concurrent bodies, want at most %d", got, tight.AllBodiesBytes/tight.BodyBytes)
	}
	if got := s.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, "200") {
		t.Errorf("got %q after the slow clients disconnected, want status 200", got)
	}
}

func TestServerWithOneRequestLimitClosesConnections(t *testing.T) {
	for name, limits := range map[string]Limits{"limits Small": Small,
		"without OneRequest": {Connections: 1, HeaderBytes: 1 << 10, BodyBytes: 1, AllBodiesBytes: 1,
			Read: time.Minute, Write: time.Minute}} {
		listener, err := Listen(t.Context(), "127.0.0.1:0", nil, limits)
		if err != nil {
			t.Fatal(err)
		}
		server := New(http.NotFoundHandler(), limits)
		go func() { _ = server.Serve(listener) }()
		answer, err := http.Get("http://" + listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.Close != limits.OneRequest {
			t.Errorf("%s: the server closes the connection: %t, want %t", name, answer.Close, limits.OneRequest)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}
