package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// What an impaired link does: less would hardly be felt, and more would leave a pull of some ten requests little
// chance to end.
const (
	chunkBytes   = 16 << 10
	lossOneIn    = 20
	chunkDelay   = 50 * time.Millisecond
	slowDelay    = 100 * time.Millisecond
	bytesASecond = 1_000_000 / 8
)

// Proxy is a link on this machine: what an agent takes for the registry, or a program for its API server. It passes
// on what it reads, piece by piece.
//
// A piece that meets a cut is held until the link is healed. This is what TCP makes of lost packets, which it sends
// again: to the agent its registry falls silent and nothing fails before the agent's own patience ends.
type Proxy struct {
	listener net.Listener
	to       string

	mu        sync.Mutex    // guards what follows
	cut       chan struct{} // closed when the link is healed; nil when it is not cut
	impaired  bool
	slow      bool
	resetting bool
	open      map[net.Conn]bool // true for those that are silent for good
	dropped   int
}

// StartProxy starts one to an address, on a port of its own.
func StartProxy(to string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a link: %w", err)
	}
	p := &Proxy{listener: listener, to: to, open: map[net.Conn]bool{}}
	go p.serve()
	return p, nil
}

// Host returns the address of this side of the link.
func (p *Proxy) Host() string { return p.listener.Addr().String() }

func (p *Proxy) serve() {
	for {
		agent, err := p.listener.Accept()
		if err != nil {
			return // it was closed
		}
		go p.join(agent)
	}
}

// join connects who calls with whom the link leads to. Where nobody listens the connection ends.
func (p *Proxy) join(caller net.Conn) {
	defer caller.Close()
	if !p.enter(caller) {
		return
	}
	defer p.leave(caller)
	if !p.pass(0) {
		return
	}
	called, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer called.Close()
	if !p.enter(called) {
		reset(caller)
		return
	}
	defer p.leave(called)
	go p.carry(called, caller)
	p.carry(caller, called)
}

// enter notes a connection that is open; false says that it was reset.
func (p *Proxy) enter(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resetting {
		p.dropped++
		reset(c)
		return false
	}
	p.open[c] = false
	return true
}

func (p *Proxy) leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// reset ends connections as a peer does that knows nothing of them. Whichever ends first, its other end has to end in
// the same way.
func reset(connections ...net.Conn) {
	for _, c := range connections {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
	for _, c := range connections {
		_ = c.Close()
	}
}

// carry passes on what comes from one side until either ends, and ends both.
func (p *Proxy) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	chunk := make([]byte, chunkBytes)
	for {
		n, err := from.Read(chunk)
		if n > 0 && !p.pass(n) {
			return
		}
		if n > 0 && p.silent(from) {
			continue
		}
		if _, failed := to.Write(chunk[:n]); err != nil || failed != nil {
			return
		}
	}
}

// silent reports whether what comes from a connection goes nowhere.
func (p *Proxy) silent(from net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[from] {
		p.dropped++
	}
	return p.open[from]
}

// pass waits until so many bytes may go on, 0 for those that open a connection; false says that they are lost, and
// with them their connection.
func (p *Proxy) pass(size int) bool {
	impaired, slow := p.bad()
	if slow {
		time.Sleep(slowDelay)
	}
	if impaired {
		time.Sleep(chunkDelay + time.Duration(size)*time.Second/bytesASecond)
		if rand.IntN(lossOneIn) == 0 {
			p.drop()
			return false
		}
	}
	if healed := p.stopped(); healed != nil {
		<-healed
	}
	return true
}

func (p *Proxy) bad() (impaired, slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.impaired, p.slow
}

func (p *Proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped++
}

// stopped counts what meets a cut, and says what to wait for; nil says that there is none.
func (p *Proxy) stopped() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		p.dropped++
	}
	return p.cut
}

// Cut lets nothing through from now on.
func (p *Proxy) Cut(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = 0
	if p.cut == nil {
		p.cut = make(chan struct{})
	}
	return nil
}

// Impair delays every piece, and loses some together with their connections.
func (p *Proxy) Impair(ctx context.Context) (string, error) {
	if err := p.Heal(ctx); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.impaired, p.dropped = true, 0
	return fmt.Sprintf("each connection has %d kbit/s and %s of delay a piece, and ends at one piece in %d", bytesASecond*8/1000, chunkDelay, lossOneIn), nil
}

// Slow delays every piece, and loses nothing.
func (p *Proxy) Slow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = true
}

// Reset ends every connection at once, and each one that is opened from now on.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetting = true
	reset(slices.Collect(maps.Keys(p.open))...)
}

// Forget lets nothing through any more on the connections that are open now, as a firewall does that forgot them.
// Those that are opened from now on work, and Heal changes nothing.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		p.open[c] = true
	}
}

// Heal lets through what waits and all that comes.
func (p *Proxy) Heal(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		close(p.cut)
	}
	p.cut, p.impaired, p.slow, p.resetting = nil, false, false, false
	return nil
}

// Dropped counts the pieces, and the connections that were to be opened, that a cut held or that were lost.
func (p *Proxy) Dropped(context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped, nil
}

// Close ends the link; connections end with the programs at their ends.
func (p *Proxy) Close() error {
	return errors.Join(p.Heal(context.Background()), p.listener.Close())
}
