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
	"sync/atomic"
	"time"
)

// Parameters of an impaired link and of a slow link.
const (
	chunkBytes   = 16 << 10
	lossOneIn    = 20
	chunkDelay   = 50 * time.Millisecond
	slowDelay    = 100 * time.Millisecond
	bytesASecond = 1_000_000 / 8
)

// Proxy is a TCP proxy that implements Link. Programs connect to the proxy instead of the registry or the API server.
//
// After Cut, the proxy delays all data until Heal, like TCP when packets are lost and retransmitted. Requests fail only
// after their own timeout.
type Proxy struct {
	listener net.Listener
	targets  []string
	next     atomic.Uint64 // counts connections, to distribute them among the targets

	mu        sync.Mutex    // guards the fields below
	cut       chan struct{} // closed when the link is healed; nil unless the link is cut
	impaired  bool
	slow      bool
	resetting bool
	open      map[net.Conn]bool // open connections; the value is true after Forget
	dropped   int
}

// StartProxy starts a Proxy that listens on a free port and forwards connections to the given address.
func StartProxy(to string) (*Proxy, error) { return StartBalancer("127.0.0.1:0", to) }

// StartBalancer starts a Proxy at an address. It distributes connections among the targets, as a Service does, and
// skips targets that do not listen.
func StartBalancer(address string, targets ...string) (*Proxy, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for a link: %w", err)
	}
	p := &Proxy{listener: listener, targets: targets, open: map[net.Conn]bool{}}
	go p.serve()
	return p, nil
}

// Host returns the proxy's address.
func (p *Proxy) Host() string { return p.listener.Addr().String() }

func (p *Proxy) serve() {
	for {
		agent, err := p.listener.Accept()
		if err != nil {
			return // Close has closed the listener
		}
		go p.join(agent)
	}
}

// dial connects to the next target that accepts a connection. It returns nil if none does.
func (p *Proxy) dial() net.Conn {
	first := p.next.Add(1)
	for i := range p.targets {
		called, err := net.Dial("tcp", p.targets[(first+uint64(i))%uint64(len(p.targets))])
		if err == nil {
			return called
		}
	}
	return nil
}

// join connects a caller to a target, or closes the connection if no target listens.
func (p *Proxy) join(caller net.Conn) {
	defer caller.Close()
	if !p.addConnection(caller) {
		return
	}
	defer p.leave(caller)
	if !p.delayChunk(0) {
		return
	}
	called := p.dial()
	if called == nil {
		return
	}
	defer called.Close()
	if !p.addConnection(called) {
		reset(caller)
		return
	}
	defer p.leave(called)
	go p.carry(called, caller)
	p.carry(caller, called)
}

// addConnection records an open connection. If the proxy resets connections, addConnection resets this connection and
// returns false.
func (p *Proxy) addConnection(c net.Conn) bool {
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

// reset resets connections. Callers must pass both ends of a connection.
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

// carry copies data from one connection to the other until one of them closes, and then closes both.
func (p *Proxy) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	chunk := make([]byte, chunkBytes)
	for {
		n, err := from.Read(chunk)
		if n > 0 && !p.delayChunk(n) {
			return
		}
		if n > 0 && p.dropsSilently(from) {
			continue
		}
		if _, failed := to.Write(chunk[:n]); err != nil || failed != nil {
			return
		}
	}
}

// dropsSilently reports whether Forget was called while the connection was open. If so, it counts a dropped chunk.
func (p *Proxy) dropsSilently(from net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[from] {
		p.dropped++
	}
	return p.open[from]
}

// delayChunk waits as long as the link delays a chunk of the given size in bytes. The size is 0 for a new connection.
// delayChunk returns false if the link drops the chunk.
func (p *Proxy) delayChunk(size int) bool {
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

// stopped returns the channel that is closed when the link is healed, or nil if the link is not cut. If the link is
// cut, stopped counts a dropped chunk.
func (p *Proxy) stopped() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		p.dropped++
	}
	return p.cut
}

// Cut delays all traffic until Heal.
func (p *Proxy) Cut(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = 0
	if p.cut == nil {
		p.cut = make(chan struct{})
	}
	return nil
}

// Impair delays every chunk of data. It drops some chunks at random and closes their connections.
func (p *Proxy) Impair(ctx context.Context) (string, error) {
	if err := p.Heal(ctx); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.impaired, p.dropped = true, 0
	return fmt.Sprintf("each connection has %d kbit/s and a delay of %s per piece, and ends at one piece in %d",
		bytesASecond*8/1000, chunkDelay, lossOneIn), nil
}

// Slow delays every chunk of data and drops none.
func (p *Proxy) Slow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = true
}

// Reset resets all open connections. Until Heal, it also resets each new connection.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetting = true
	reset(slices.Collect(maps.Keys(p.open))...)
}

// Forget drops all further traffic of the open connections, like a firewall that has lost its state. Heal does not
// repair these connections. New connections work.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		p.open[c] = true
	}
}

// Heal forwards the delayed traffic and all later traffic.
func (p *Proxy) Heal(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		close(p.cut)
	}
	p.cut, p.impaired, p.slow, p.resetting = nil, false, false, false
	return nil
}

// Dropped returns how many chunks and connections the proxy has dropped, or has delayed because of Cut.
func (p *Proxy) Dropped(context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped, nil
}

// Close heals the link and stops accepting connections. Open connections continue to work.
func (p *Proxy) Close() error {
	return errors.Join(p.Heal(context.Background()), p.listener.Close())
}
