package serve

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// limitedListener limits the number of open connections. Unlike netutil.LimitListener, it does not count hijacked
// connections, because their handler limits them. If hijacked connections counted, the limit would need to be higher,
// and clients without credentials could open more connections.
type limitedListener struct {
	net.Listener
	slots chan struct{}
	ended chan struct{}
	end   func()
}

func newLimitedListener(listener net.Listener, connections int) *limitedListener {
	ended := make(chan struct{})
	return &limitedListener{
		Listener: listener, slots: make(chan struct{}, connections), ended: ended,
		end: sync.OnceFunc(func() { close(ended) }),
	}
}

// Accept waits until the number of connections is below the limit, and then for a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.ended:
		return nil, net.ErrClosed
	}
	connection, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: connection, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close closes the listener and also ends a waiting call to Accept.
func (l *limitedListener) Close() error {
	l.end()
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

// Close closes the connection and lets the listener accept another one.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

func releaseHijacked(connection net.Conn, state http.ConnState) {
	if state != http.StateHijacked {
		return
	}
	if secured, ok := connection.(*tls.Conn); ok {
		connection = secured.NetConn()
	}
	if limited, ok := connection.(*limitedConn); ok {
		limited.release()
	}
}
