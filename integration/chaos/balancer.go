package chaos

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
)

// balancer accepts connections at one address and distributes them among the publishers, as a Service does.
type balancer struct {
	listener net.Listener
	targets  []string
	next     atomic.Uint64
}

// startBalancer starts a balancer at an address of this host. It stops when its listener is closed.
func startBalancer(address string, targets []string) (*balancer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for notifications: %w", err)
	}
	b := &balancer{listener: listener, targets: targets}
	go b.serve()
	return b, nil
}

func (b *balancer) serve() {
	for {
		caller, err := b.listener.Accept()
		if err != nil {
			return // the listener was closed
		}
		go b.join(caller)
	}
}

// join copies data between a caller and the next target that accepts a connection, until one of them closes it.
func (b *balancer) join(caller net.Conn) {
	defer caller.Close()
	called := b.dial()
	if called == nil {
		return
	}
	defer called.Close()
	ended := make(chan struct{}, 2)
	forward := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // an error ends the connection
		ended <- struct{}{}
	}
	go forward(called, caller)
	go forward(caller, called)
	<-ended
}

// dial connects to the next target that accepts a connection. It returns nil if none does.
func (b *balancer) dial() net.Conn {
	first := b.next.Add(1)
	for i := range b.targets {
		called, err := net.Dial("tcp", b.targets[(first+uint64(i))%uint64(len(b.targets))])
		if err == nil {
			return called
		}
	}
	return nil
}

func (b *balancer) close() error { return b.listener.Close() }

// balanceNotifications distributes the connections of the registry and of the agents among the publishers.
func (s *stage) balanceNotifications() error {
	var receivers, agents []string
	for _, own := range s.receivers {
		receivers, agents = append(receivers, own.Receiver), append(agents, own.Agents)
	}
	for address, targets := range map[string][]string{
		s.notifications.Receiver: receivers, s.notifications.Agents: agents,
	} {
		b, err := startBalancer(address, targets)
		if err != nil {
			return err
		}
		s.balancers = append(s.balancers, b)
	}
	return nil
}
