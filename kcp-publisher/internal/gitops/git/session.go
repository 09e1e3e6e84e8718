package git

import (
	"context"
	"io"

	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
)

// What ~/.ssh/config says of hosts is for people.
func init() { gitssh.DefaultSSHConfig = nil }

// opened opens a session while the context lasts. go-git waits forever for an SSH server that takes a connection and
// says nothing.
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
				_ = session.Close() // nobody waits for it any more
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
