package git

import (
	"context"
	"io"

	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
)

// ~/.ssh/config is not read: it is the configuration of a user.
func init() { gitssh.DefaultSSHConfig = nil }

// opened opens a session until the context ends. go-git waits forever for an SSH server that accepts a connection and
// sends nothing.
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
