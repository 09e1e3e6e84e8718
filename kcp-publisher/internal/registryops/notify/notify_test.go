package notify

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/serve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

var secret = trust.TokenSecret(strings.Repeat("s", 32))

// endpoint is a server with subscribers.
type endpoint struct {
	*Subscribers
	address string
	secure  *tls.Config // configuration of the clients, or nil without TLS
	standby atomic.Bool
	lowest  atomic.Int64 // lowest valid generation of passwords
}

func start(t testing.TB, connections int, secured bool) *endpoint {
	t.Helper()
	e := &endpoint{}
	var handler http.Handler
	e.Subscribers, handler = New(Options{
		Connections: connections, Serves: func(string) bool { return !e.standby.Load() }, Log: logr.Discard(),
		Passwords: token.Passwords{
			Secrets: func() (trust.TokenSecrets, error) { return trust.TokenSecrets{secret}, nil },
			InForce: func(string) (int, error) { return max(int(e.lowest.Load()), 1), nil },
		},
	})
	var config *tls.Config
	if secured {
		config = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
		e.secure = &tls.Config{InsecureSkipVerify: true}
	}
	listener, err := serve.Listen(t.Context(), "127.0.0.1:0", config, Limits)
	if err != nil {
		t.Fatal(err)
	}
	e.address = listener.Addr().String()
	server := serve.New(handler, Limits)
	ctx, cancel := context.WithCancel(context.Background())
	served, swept := make(chan struct{}), make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	go func() { defer close(swept); _ = e.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-swept; _ = server.Close(); <-served })
	return e
}

func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func password(t testing.TB, user string) string {
	t.Helper()
	text, err := token.Password(secret, user, 1)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (e *endpoint) dial(t testing.TB, user, password string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", e.address)
	if err != nil {
		t.Fatal(err)
	}
	if e.secure != nil {
		conn = tls.Client(conn, e.secure)
	}
	t.Cleanup(func() { _ = conn.Close() })
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet,
		"http://"+e.address+bundle.NotificationsPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(user, password)
	if err := request.Write(conn); err != nil {
		t.Fatal(err)
	}
	return conn
}

type agent struct {
	conn  net.Conn
	lines *bufio.Reader
}

func (e *endpoint) connect(t testing.TB, id string) *agent {
	t.Helper()
	conn := e.dial(t, id, password(t, id))
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	a := &agent{conn, bufio.NewReader(conn)}
	answer, err := http.ReadResponse(a.lines, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != bundle.NotificationsMediaType {
		t.Fatalf("got status %s and headers %v, want 200 with an event stream", answer.Status, answer.Header)
	}
	a.next(t, ":")
	return a
}

func (a *agent) next(t testing.TB, want string) {
	t.Helper()
	_ = a.conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	line, err := a.lines.ReadString('\n')
	empty, errEmpty := a.lines.ReadString('\n')
	if err != nil || errEmpty != nil || strings.TrimSpace(line) != want || empty != "\n" {
		t.Fatalf("got %q, %q, %v, want %q", line, empty, err, want)
	}
}

func (a *agent) ended(t testing.TB) {
	t.Helper()
	_ = a.conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.Copy(io.Discard, a.lines); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Fatal("the connection is still open")
	}
}

func (s *Subscribers) connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// idle waits until no write is in progress.
func (s *Subscribers) idle(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		busy := false
		s.mu.Lock()
		for _, all := range s.byRuntime {
			for _, one := range all {
				busy = busy || one.writing
			}
		}
		s.mu.Unlock()
		if !busy {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("something is still being written")
		}
	}
}

func TestRuntimeReceivesOnlyItsOwnNotifications(t *testing.T) {
	for _, secured := range []bool{false, true} {
		e := start(t, 10, secured)
		one, two := e.connect(t, "one"), e.connect(t, "two")
		e.Notify("nobody")
		e.Notify("two")
		two.next(t, "data: bundle")
		e.Notify("one")
		one.next(t, "data: bundle") // with another notification, the next read would not return a comment
		e.idle(t)
		e.keepAlive(time.Now().Add(commentInterval))
		one.next(t, ":")
		two.next(t, ":")
	}
}

func TestOtherRuntimesPasswordsAreRefused(t *testing.T) {
	e := start(t, 10, false)
	ask := func(user, password string) int {
		answer, err := http.ReadResponse(bufio.NewReader(e.dial(t, user, password)), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for name, c := range map[string]struct{ user, password string }{
		"another runtime's password":   {"one", password(t, "two")},
		"request without a password":   {"one", ""},
		"request without credentials":  {"", ""},
		"a user that is not a runtime": {token.UserPublisher, password(t, token.UserPublisher)},
		"an invalid runtime ID":        {"../one", password(t, "one")},
	} {
		if code := ask(c.user, c.password); code != http.StatusUnauthorized {
			t.Errorf("%s: got status %d, want 401", name, code)
		}
	}
	e.standby.Store(true)
	if code := ask("one", password(t, "one")); code != http.StatusServiceUnavailable {
		t.Errorf("standby replica: got %d, want 503", code)
	}
	e.lowest.Store(2)
	if code := ask("one", password(t, "one")); code != http.StatusUnauthorized {
		t.Errorf("revoked password: got %d, want 401", code)
	}
	codes := map[int]int{}
	for range 2 * refusalsAtOnce {
		codes[ask("one", "wrong")]++
	}
	if codes[http.StatusTooManyRequests] == 0 || codes[http.StatusOK] > 0 {
		t.Errorf("flood of wrong passwords: got %v", codes)
	}
	e.standby.Store(false)
	e.lowest.Store(1)
	e.connect(t, "one") // the server accepts a correct password during the flood
	if n := e.connected(); n != 1 {
		t.Errorf("got %d connections, want 1", n)
	}
}

func TestAgentsAreDisconnectedWhenTheirShardMoves(t *testing.T) {
	e := start(t, 3, false)
	moved := e.connect(t, "one")
	e.connect(t, "two")
	e.Disconnect(func(runtime string) bool { return runtime == "one" })
	moved.ended(t)
	if n := e.connected(); n != 1 {
		t.Errorf("got %d connections, want only the one of the other runtime", n)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	e := start(t, 3, false)
	first, second := e.connect(t, "one"), e.connect(t, "one")
	third := e.connect(t, "one") // the oldest connection can belong to a stopped agent
	first.ended(t)
	e.connect(t, "two")
	answer, err := http.ReadResponse(bufio.NewReader(e.dial(t, "three", password(t, "three"))), nil)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("connection over the limit of 3: got response %v and error %v, want status 503", answer, err)
	}
	e.Notify("one")
	second.next(t, "data: bundle")
	third.next(t, "data: bundle")
	fourth := e.connect(t, "one") // replaces a connection of the same runtime
	second.ended(t)
	_ = third.conn.Close()
	for range 100 { // the server detects a disconnected client by a failed write
		if e.connected() == 2 {
			break
		}
		e.keepAlive(time.Now().Add(commentInterval))
		time.Sleep(10 * time.Millisecond)
	}
	if n := e.connected(); n != 2 {
		t.Errorf("got %d connections, want 2", n)
	}
	e.Notify("one")
	for {
		line, err := fourth.lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data:") {
			break
		}
	}
	e.close()
	fourth.ended(t)
}

// The test also revokes the password of a connected runtime.
func TestClosedConnectionMustAuthenticateAgain(t *testing.T) {
	e := start(t, 100, false)
	var agents []*agent
	for _, id := range []string{"one", "two", "three", "four"} {
		agents = append(agents, e.connect(t, id))
	}
	e.idle(t)
	e.keepAlive(time.Now().Add(maxConnectionAge - time.Minute))
	for _, a := range agents {
		a.next(t, ":") // no connection ends before this time
	}
	e.mu.Lock()
	ends := map[time.Time]bool{}
	for _, all := range e.byRuntime {
		ends[all[0].until] = true
	}
	e.mu.Unlock()
	if len(ends) < 2 {
		t.Error("all connections end at the same time")
	}
	e.idle(t)
	e.lowest.Store(2)
	e.keepAlive(time.Now().Add(maxConnectionAge + maxAgeSpread))
	for _, a := range agents {
		_ = a.conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
		if _, err := a.lines.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want EOF", err)
		}
	}
	answer, err := http.ReadResponse(bufio.NewReader(e.dial(t, "one", password(t, "one"))), nil)
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("revoked password: got response %v and error %v, want status 401", answer, err)
	}
	if n := e.connected(); n != 0 {
		t.Errorf("got %d connections, want none", n)
	}
}

// With a runtime's stolen password, an attacker could otherwise close the agent's connections again and again.
func TestReconnectsPerRuntimeAreLimited(t *testing.T) {
	e := start(t, 100, false)
	codes := map[int]int{}
	began := time.Now()
	for range 10 * connectsAtOnce {
		answer, err := http.ReadResponse(bufio.NewReader(e.dial(t, "one", password(t, "one"))), nil)
		if err != nil {
			t.Fatal(err)
		}
		codes[answer.StatusCode]++
	}
	most := connectsAtOnce + int(time.Since(began).Seconds()*connectsPerSecond)
	if codes[http.StatusOK] > most || codes[http.StatusOK]+codes[http.StatusTooManyRequests] != 10*connectsAtOnce {
		t.Errorf("got %v, want at most %d accepted and the others deferred", codes, most)
	}
	e.connect(t, "two") // the limit does not apply to another runtime
	e.keepAlive(time.Now().Add(commentInterval))
	if e.mu.Lock(); len(e.connects) != 0 {
		t.Errorf("got expired limiters %v, want none", e.connects)
	}
	e.mu.Unlock()
	e.connect(t, "one") // on the limiter's clock, half a minute later
}

func TestSlowReaderDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := New(Options{Connections: 10, Log: logr.Discard()})
		slow, unread := net.Pipe()
		quick, read := net.Pipe()
		began, received := time.Now(), make(chan time.Duration, 1)
		go func() {
			lines := bufio.NewScanner(read)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data:") {
					break
				}
			}
			received <- time.Since(began)
			_, _ = io.Copy(io.Discard, read)
		}()
		if !s.add("slow", slow, []byte(streamHeader)) || !s.add("quick", quick, []byte(streamHeader)) {
			t.Fatal("a connection was refused")
		}
		for range 100 {
			s.Notify("slow")
			s.Notify("quick")
		}
		if took := <-received; took > 0 {
			t.Errorf("a notification took %s while another agent did not read", took)
		}
		time.Sleep(writeTimeout + time.Second)
		synctest.Wait()
		if s.connected() != 1 || len(s.byRuntime["slow"]) > 0 {
			t.Errorf("got %d connections, want only the quick agent", s.connected())
		}
		if n, err := io.Copy(io.Discard, unread); n > 0 || err != nil {
			t.Errorf("slow agent: got %d bytes and error %v, want none", n, err)
		}
		s.close()
	})
}
