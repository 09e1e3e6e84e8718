package fleet

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/kyma-pull/kyma-pull/integration/loopback"
)

// Spread forwards each connection to the next of several addresses, as a Service forwards to Pods.
type Spread struct {
	listener net.Listener
	to       []string
	next     atomic.Uint64
}

// StartSpread listens on an address. Callers must end it with Close.
func StartSpread(address string, to ...string) (*Spread, error) {
	listener, err := loopback.ListenAt(context.Background(), address)
	if err != nil {
		return nil, fmt.Errorf("listen for replicas: %w", err)
	}
	s := &Spread{listener: listener, to: to}
	go s.serve()
	return s, nil
}

// Close stops accepting connections. Open connections stay open.
func (s *Spread) Close() error { return s.listener.Close() }

func (s *Spread) serve() {
	for {
		caller, err := s.listener.Accept()
		if err != nil {
			return // Close has closed the listener
		}
		go join(caller, s.to[s.next.Add(1)%uint64(len(s.to))])
	}
}

// join connects a caller to an address until one of them closes the connection.
func join(caller net.Conn, to string) {
	defer caller.Close()
	called, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer called.Close()
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{called, caller}, {caller, called}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}
