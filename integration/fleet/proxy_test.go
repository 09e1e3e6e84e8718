package fleet

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// echo is a server that sends every line back to the client. It counts connections and lines.
type echo struct {
	listener           net.Listener
	connections, lines atomic.Int32
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	e := &echo{listener: listener}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			e.connections.Add(1)
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					e.lines.Add(1)
					if _, err := fmt.Fprintln(c, lines.Text()); err != nil {
						return
					}
				}
			}()
		}
	}()
	return e
}

// caller is a client's connection through the link.
type caller struct {
	net.Conn
	lines *bufio.Scanner
}

func call(t *testing.T, p *Proxy) caller {
	t.Helper()
	c, err := net.Dial("tcp", p.Host())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return caller{c, bufio.NewScanner(c)}
}

func (c caller) answer() bool { return c.lines.Scan() && c.lines.Text() == "hello" }

func (c caller) ask() bool {
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		return false
	}
	return c.answer()
}

func linkTo(t *testing.T, registry string) *Proxy {
	t.Helper()
	p, err := StartProxy(registry)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

func untilDropped(t *testing.T, p *Proxy, n int) {
	t.Helper()
	must(t, Until(t.Context(), time.Minute, fmt.Sprintf("the link dropped %d", n), func() (bool, string) {
		dropped, err := p.Dropped(t.Context())
		return err == nil && dropped >= n, fmt.Sprint(dropped, err)
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDisconnectedLinkBuffersTrafficUntilHealed(t *testing.T) {
	registry := startEcho(t)
	p := linkTo(t, registry.listener.Addr().String())
	open := call(t, p)
	if !open.ask() {
		t.Fatal("no response before the link is cut")
	}
	must(t, p.Cut(t.Context()))
	_, err := fmt.Fprintln(open, "hello")
	must(t, err)
	late := call(t, p)
	_, err = fmt.Fprintln(late, "hello")
	must(t, err)
	untilDropped(t, p, 2)
	if connections, lines := registry.connections.Load(), registry.lines.Load(); connections != 1 || lines != 1 {
		t.Errorf("%d connections and %d lines reached the registry, want only 1 and 1", connections, lines)
	}
	must(t, p.Heal(t.Context()))
	if !open.answer() || !late.answer() {
		t.Error("the delayed data did not arrive after the link was healed")
	}
}

func TestImpairedLinkDropsConnectionsUntilHealed(t *testing.T) {
	p := linkTo(t, startEcho(t).listener.Addr().String())
	_, err := p.Impair(t.Context())
	must(t, err)
	must(t, Until(t.Context(), time.Minute, "a connection is lost", func() (bool, string) {
		return !call(t, p).ask(), "an answer"
	}))
	untilDropped(t, p, 1)
	must(t, p.Heal(t.Context()))
	for range 10 * lossOneIn {
		if !call(t, p).ask() {
			t.Fatal("a healed link lost a connection")
		}
	}
}

func TestLinkClosesConnectionsIfRegistryIsDown(t *testing.T) {
	registry := startEcho(t)
	must(t, registry.listener.Close())
	if call(t, linkTo(t, registry.listener.Addr().String())).ask() {
		t.Error("got a response although no server listens")
	}
}

func TestResetClosesConnectionsUntilLinkIsHealed(t *testing.T) {
	registry := startEcho(t)
	p := linkTo(t, registry.listener.Addr().String())
	open := call(t, p)
	if !open.ask() {
		t.Fatal("no response before the reset")
	}
	p.Reset()
	if open.answer() || !errors.Is(open.lines.Err(), syscall.ECONNRESET) {
		t.Errorf("an open connection ended with error %v, want a reset", open.lines.Err())
	}
	if c, err := net.Dial("tcp", p.Host()); err == nil { // an error means a reset
		defer c.Close()
		must(t, c.SetDeadline(time.Now().Add(time.Minute)))
		if (caller{c, bufio.NewScanner(c)}).ask() {
			t.Error("a connection that was opened after the reset got a response")
		}
	}
	must(t, p.Heal(t.Context()))
	if !call(t, p).ask() {
		t.Error("no response after the link was healed")
	}
}

func TestForgetDropsOpenConnectionsSilently(t *testing.T) {
	registry := startEcho(t)
	p := linkTo(t, registry.listener.Addr().String())
	open := call(t, p)
	if !open.ask() {
		t.Fatal("no response before Forget")
	}
	p.Forget()
	_, err := fmt.Fprintln(open, "hello")
	must(t, err)
	untilDropped(t, p, 1)
	must(t, p.Heal(t.Context()))
	if !call(t, p).ask() {
		t.Error("no response on a new connection after Forget")
	}
	if lines := registry.lines.Load(); lines != 2 {
		t.Errorf("%d lines reached the registry, want one before Forget and one on the new connection", lines)
	}
}

func TestSlowLinkDeliversAllData(t *testing.T) {
	p := linkTo(t, startEcho(t).listener.Addr().String())
	p.Slow()
	began, c := time.Now(), call(t, p)
	for range 3 {
		if !c.ask() {
			t.Fatal("a slow link lost data")
		}
	}
	if took := time.Since(began); took < 6*slowDelay {
		t.Errorf("three requests took %s although each piece is delayed by %s", took, slowDelay)
	}
}
