package git

import (
	"context"
	"io"
	"net"
	"net/url"

	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/net/proxy"

	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

// sshScheme is the scheme of a proxy URL that selects boundedDialer. go-git has no other hook into SSH connections.
const sshScheme = "kyma-pull-bounded"

func init() {
	gitssh.DefaultSSHConfig = nil // ~/.ssh/config of the current user must have no effect
	proxy.RegisterDialerType(sshScheme, func(*url.URL, proxy.Dialer) (proxy.Dialer, error) {
		return boundedDialer{}, nil
	})
}

// boundedDialer opens connections from which at most maxPackBytes can be read. It uses the proxies of the environment,
// as go-git does.
type boundedDialer struct{}

// Dial implements proxy.Dialer.
func (d boundedDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext implements proxy.ContextDialer.
func (boundedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := proxy.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return boundedConn{Conn: conn, from: bounded.NewReader(conn, maxPackBytes, errTooLarge)}, nil
}

// boundedConn reads from a bounded reader.
type boundedConn struct {
	net.Conn
	from io.Reader
}

func (c boundedConn) Read(p []byte) (int, error) { return c.from.Read(p) }

// opened opens a session, and returns an error if the context ends first. go-git itself waits forever for an SSH server
// that accepts a connection but does not respond.
func opened[S io.Closer](ctx context.Context, open func() (S, error)) (S, error) {
	type answer struct {
		session S
		err     error
	}
	answers := make(chan answer)
	go func() {
		session, err := open()
		select {
		case answers <- answer{session, err}:
		case <-ctx.Done():
			if err == nil {
				_ = session.Close() // the caller has returned
			}
		}
	}()
	select {
	case a := <-answers:
		return a.session, a.err
	case <-ctx.Done():
		var none S
		return none, ctx.Err()
	}
}
