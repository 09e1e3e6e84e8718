package serve

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
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

// testServer is a server that reads request bodies and counts concurrent connections.
type testServer struct {
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

func start(t *testing.T, limits Limits) *testServer {
	t.Helper()
	s := &testServer{}
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
	go func() { defer close(done); _ = server.Serve(countingListener{listener, s}) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return s
}

// countingListener counts open connections. It decrements the count before it closes a connection, because the server
// can accept the next connection immediately afterwards.
type countingListener struct {
	net.Listener
	of *testServer
}

func (c countingListener) Accept() (net.Conn, error) {
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
func (s *testServer) send(t *testing.T, parts ...string) string {
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

// The clients send a header that announces a body, and never send the body. The handler refuses them without reading.
func TestUnreadBodiesDoNotHoldConnections(t *testing.T) {
	limits := Limits{
		Connections: 4, HeaderBytes: 1 << 10, BodyBytes: 1 << 20, AllBodiesBytes: 8 << 20, Read: 5 * time.Minute,
		Write: time.Minute, OneRequest: true,
	}
	listener, err := Listen(t.Context(), "127.0.0.1:0", nil, limits)
	if err != nil {
		t.Fatal(err)
	}
	server := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "refused", http.StatusUnauthorized)
	}), limits)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	for range 3 * limits.Connections {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		_ = connection.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(connection,
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(connection).ReadString('\n'); err != nil || !strings.Contains(line, "401") {
			t.Fatalf("got %q and error %v, want status 401", line, err)
		}
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

// certificate returns a TLS configuration with a new certificate.
func certificate(t *testing.T) *tls.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	return &tls.Config{Certificates: server.TLS.Certificates}
}

// dial opens connections, sends the data over each of them, and keeps them open.
func dial(t *testing.T, address string, connections int, data []byte) []net.Conn {
	t.Helper()
	dialed := make([]net.Conn, connections)
	for i := range dialed {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		dialed[i] = connection
		_, _ = connection.Write(data)
	}
	return dialed
}

// longHello returns a ClientHello with the maximum length, without its last bytes.
func longHello() []byte {
	message := append([]byte{1, 0, 0xff, 0xff}, make([]byte, 65_400)...)
	var records []byte
	for part := range slices.Chunk(message, 16<<10) {
		records = append(records, 22, 3, 1, byte(len(part)>>8), byte(len(part)))
		records = append(records, part...)
	}
	return records
}

func TestUnfinishedHandshakesFitInTheMemoryLimit(t *testing.T) {
	limits := Small
	limits.Read = time.Minute
	listener, err := Listen(t.Context(), "127.0.0.1:0", certificate(t), limits)
	if err != nil {
		t.Fatal(err)
	}
	server := New(http.NotFoundHandler(), limits)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	used := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapInuse + stats.StackInuse)
	}
	before := used()
	dial(t, listener.Addr().String(), limits.Connections, longHello())
	time.Sleep(200 * time.Millisecond)
	most := used() - before
	t.Logf("%d bytes for each of %d connections", most/int64(limits.Connections), limits.Connections)
	if most > limits.Memory() {
		t.Errorf("%d connections without a request use %d bytes, Memory returns %d", limits.Connections, most,
			limits.Memory())
	}
}

func TestHijackedConnectionsAreNotCounted(t *testing.T) {
	for _, secured := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secured), func(t *testing.T) {
			hijacked := make(chan net.Conn, 10)
			limits := Small
			limits.Connections = 1
			var config *tls.Config
			if secured {
				config = certificate(t)
			}
			listener, err := Listen(t.Context(), "127.0.0.1:0", config, limits)
			if err != nil {
				t.Fatal(err)
			}
			server := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				connection, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
				}
				hijacked <- connection
			}), limits)
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(func() { _ = server.Close() })
			for range 3 {
				connection := dial(t, listener.Addr().String(), 1, nil)[0]
				_ = connection.SetDeadline(time.Now().Add(20 * time.Second))
				if secured {
					connection = tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
				}
				_, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				select {
				case taken := <-hijacked:
					defer taken.Close()
				case <-time.After(20 * time.Second):
					t.Fatal("a hijacked connection blocks the next one")
				}
			}
		})
	}
}

func TestFailedHandshakesAreLoggedOncePerMinute(t *testing.T) {
	var written bytes.Buffer
	log.SetOutput(&written)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	errors := New(http.NotFoundHandler(), Small).ErrorLog
	for i := range 1000 {
		errors.Printf("http: TLS handshake error from 10.0.0.%d: EOF", i)
	}
	errors.Print("http: panic serving 10.0.0.1: error")
	lines := strings.Split(strings.TrimSpace(written.String()), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[1], "http: panic serving 10.0.0.1: error") {
		t.Errorf("got %d lines %q, want one failed handshake and the panic", len(lines), lines[:min(len(lines), 3)])
	}
}
