package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// What an impaired link does: less would hardly be felt, and more would leave a pull of some ten requests little chance to end.
const (
	chunkBytes   = 16 << 10
	lossOneIn    = 20
	chunkDelay   = 50 * time.Millisecond
	bytesASecond = 1_000_000 / 8
)

// proxy is the link of an agent on this machine: what the agent takes for the registry. It passes on what it reads, piece by piece.
//
// A piece that meets a cut is held until the link is healed. This is what TCP makes of lost packets, which it sends again: to the
// agent its registry falls silent and nothing fails before the agent's own patience ends.
type proxy struct {
	listener net.Listener
	registry string

	mu       sync.Mutex    // guards what follows
	cut      chan struct{} // closed when the link is healed; nil when it is not cut
	impaired bool
	dropped  int
}

// startProxy starts one to a registry, on a port of its own.
func startProxy(registry string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a link: %w", err)
	}
	p := &proxy{listener: listener, registry: registry}
	go p.serve()
	return p, nil
}

func (p *proxy) host() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		agent, err := p.listener.Accept()
		if err != nil {
			return // it was closed
		}
		go p.join(agent)
	}
}

// join connects an agent's connection with the registry. Where there is no registry it ends.
func (p *proxy) join(agent net.Conn) {
	defer agent.Close()
	if !p.pass(0) {
		return
	}
	registry, err := net.Dial("tcp", p.registry)
	if err != nil {
		return
	}
	go p.carry(registry, agent)
	p.carry(agent, registry)
}

// carry passes on what comes from one side until either ends, and ends both.
func (p *proxy) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	chunk := make([]byte, chunkBytes)
	for {
		n, err := from.Read(chunk)
		if n > 0 && !p.pass(n) {
			return
		}
		if _, failed := to.Write(chunk[:n]); err != nil || failed != nil {
			return
		}
	}
}

// pass waits until so many bytes may go on, 0 for those that open a connection; false says that they are lost, and with them
// their connection.
func (p *proxy) pass(size int) bool {
	if p.bad() {
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

func (p *proxy) bad() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.impaired
}

func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped++
}

// stopped counts what meets a cut, and says what to wait for; nil says that there is none.
func (p *proxy) stopped() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		p.dropped++
	}
	return p.cut
}

// Cut lets nothing through from now on.
func (p *proxy) Cut(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = 0
	if p.cut == nil {
		p.cut = make(chan struct{})
	}
	return nil
}

// Impair delays every piece, and loses some together with their connections.
func (p *proxy) Impair(ctx context.Context) (string, error) {
	if err := p.Heal(ctx); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.impaired, p.dropped = true, 0
	return fmt.Sprintf("each connection has %d kbit/s and %s of delay a piece, and ends at one piece in %d", bytesASecond*8/1000, chunkDelay, lossOneIn), nil
}

// Heal lets through what waits and all that comes.
func (p *proxy) Heal(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		close(p.cut)
	}
	p.cut, p.impaired = nil, false
	return nil
}

// Dropped counts the pieces, and the connections that were to be opened, that a cut held or that were lost.
func (p *proxy) Dropped(context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped, nil
}

// close ends the link; connections end with the programs at their ends.
func (p *proxy) close() error {
	return errors.Join(p.Heal(context.Background()), p.listener.Close())
}
