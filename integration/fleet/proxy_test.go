package fleet

import (
	"bufio"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// echo answers every line with itself and counts what it got.
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

// caller is the other end of the link.
type caller struct {
	net.Conn
	lines *bufio.Scanner
}

func call(t *testing.T, p *proxy) caller {
	t.Helper()
	c, err := net.Dial("tcp", p.host())
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

func linkTo(t *testing.T, registry string) *proxy {
	t.Helper()
	p, err := startProxy(registry)
	must(t, err)
	t.Cleanup(func() { must(t, p.close()) })
	return p
}

func untilDropped(t *testing.T, p *proxy, n int) {
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

func TestCutLinkLetsNothingThroughUntilItIsHealed(t *testing.T) {
	registry := startEcho(t)
	p := linkTo(t, registry.listener.Addr().String())
	open := call(t, p)
	if !open.ask() {
		t.Fatal("the link does not answer before it is cut")
	}
	must(t, p.Cut(t.Context()))
	_, err := fmt.Fprintln(open, "hello")
	must(t, err)
	late := call(t, p)
	_, err = fmt.Fprintln(late, "hello")
	must(t, err)
	untilDropped(t, p, 2)
	if connections, lines := registry.connections.Load(), registry.lines.Load(); connections != 1 || lines != 1 {
		t.Errorf("%d connections and %d lines reached the registry, want those from before the cut", connections, lines)
	}
	must(t, p.Heal(t.Context()))
	if !open.answer() || !late.answer() {
		t.Error("what was held did not go on when the link was healed")
	}
}

func TestImpairedLinkLosesConnectionsUntilItIsHealed(t *testing.T) {
	p := linkTo(t, startEcho(t).listener.Addr().String())
	_, err := p.Impair(t.Context())
	must(t, err)
	must(t, Until(t.Context(), time.Minute, "a connection is lost", func() (bool, string) { return !call(t, p).ask(), "an answer" }))
	untilDropped(t, p, 1)
	must(t, p.Heal(t.Context()))
	for range 10 * lossOneIn {
		if !call(t, p).ask() {
			t.Fatal("a link that was healed loses a connection")
		}
	}
}

func TestLinkWithoutARegistryEndsItsConnections(t *testing.T) {
	registry := startEcho(t)
	must(t, registry.listener.Close())
	if call(t, linkTo(t, registry.listener.Addr().String())).ask() {
		t.Error("something answers where nothing listens")
	}
}
