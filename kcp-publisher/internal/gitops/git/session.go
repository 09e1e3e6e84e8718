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

// sshScheme is the scheme of a proxy URL that makes go-git open SSH connections with boundedDialer. go-git has no other
// extension point for SSH connections.
const sshScheme = "kyma-pull-bounded"

func init() {
	gitssh.DefaultSSHConfig = nil // the current user's ~/.ssh/config must have no effect
	proxy.RegisterDialerType(sshScheme, func(*url.URL, proxy.Dialer) (proxy.Dialer, error) {
		return boundedDialer{}, nil
	})
}

// boundedDialer limits the bytes that can be read from a connection to maxPackBytes.
type boundedDialer struct{}

func (d boundedDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func (boundedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := proxy.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return boundedConn{Conn: conn, from: bounded.NewReader(conn, maxPackBytes, errTooLarge)}, nil
}

type boundedConn struct {
	net.Conn
	from io.Reader
}

func (c boundedConn) Read(p []byte) (int, error) { return c.from.Read(p) }

// openWithContext calls open, and returns an error if ctx is canceled before open returns. go-git waits forever for an
// SSH server that does not respond.
func openWithContext[S io.Closer](ctx context.Context, open func() (S, error)) (S, error) {
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
