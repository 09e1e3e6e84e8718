package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/net/proxy"

	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

// sshScheme is the scheme of a proxy URL that makes go-git open SSH connections with a sizeLimit. go-git has no other
// extension point for SSH connections. The URL's host identifies the sizeLimit.
const sshScheme = "kyma-pull-bounded"

func init() {
	gitssh.DefaultSSHConfig = nil // the current user's ~/.ssh/config must have no effect
	proxy.RegisterDialerType(sshScheme, func(address *url.URL, _ proxy.Dialer) (proxy.Dialer, error) {
		limit, found := opening.Load(address.Host)
		if !found {
			return nil, fmt.Errorf("session %q is not being opened", address.Host)
		}
		return limit.(*sizeLimit), nil
	})
}

// opening contains the sizeLimit of each session that is being opened. sessions is the number of opened sessions.
var (
	opening  sync.Map
	sessions atomic.Uint64
)

// sizeLimit limits the bytes that can be read from a session's connection to maxPackBytes. Beyond the limit, the SSH
// library ends its streams without an error, and go-git reports the truncated data in various ways. orTooLarge replaces
// these errors.
type sizeLimit struct{ wasExceeded atomic.Bool }

func (l *sizeLimit) Dial(network, address string) (net.Conn, error) {
	return l.DialContext(context.Background(), network, address)
}

func (l *sizeLimit) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := proxy.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return boundedConn{Conn: conn, from: bounded.NewReader(conn, maxPackBytes, errTooLarge), limit: l}, nil
}

// orTooLarge returns errTooLarge instead of an error if the limit was exceeded.
func (l *sizeLimit) orTooLarge(err error) error {
	if err != nil && l.wasExceeded.Load() {
		return errTooLarge
	}
	return err
}

type boundedConn struct {
	net.Conn
	from  io.Reader
	limit *sizeLimit
}

func (c boundedConn) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if errors.Is(err, errTooLarge) {
		c.limit.wasExceeded.Store(true)
	}
	return n, err
}

// boundedSSH opens SSH sessions with a sizeLimit.
type boundedSSH struct{ next transport.Transport }

func (s boundedSSH) NewUploadPackSession(
	endpoint *transport.Endpoint, auth transport.AuthMethod,
) (transport.UploadPackSession, error) {
	session, limit, err := openBounded(endpoint, auth, s.next.NewUploadPackSession)
	if err != nil {
		return nil, err
	}
	return boundedUpload{session, limit}, nil
}

func (s boundedSSH) NewReceivePackSession(
	endpoint *transport.Endpoint, auth transport.AuthMethod,
) (transport.ReceivePackSession, error) {
	session, limit, err := openBounded(endpoint, auth, s.next.NewReceivePackSession)
	if err != nil {
		return nil, err
	}
	return boundedReceive{session, limit}, nil
}

func openBounded[S any](
	endpoint *transport.Endpoint, auth transport.AuthMethod,
	open func(*transport.Endpoint, transport.AuthMethod) (S, error),
) (S, *sizeLimit, error) {
	id, limit := strconv.FormatUint(sessions.Add(1), 10), &sizeLimit{}
	opening.Store(id, limit)
	defer opening.Delete(id)
	own := *endpoint
	own.Proxy.URL = sshScheme + "://" + id
	session, err := open(&own, auth)
	return session, limit, limit.orTooLarge(err)
}

type boundedUpload struct {
	transport.UploadPackSession
	limit *sizeLimit
}

func (s boundedUpload) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	refs, err := s.UploadPackSession.AdvertisedReferencesContext(ctx)
	return refs, s.limit.orTooLarge(err)
}

func (s boundedUpload) UploadPack(
	ctx context.Context, request *packp.UploadPackRequest,
) (*packp.UploadPackResponse, error) {
	response, err := s.UploadPackSession.UploadPack(ctx, request)
	if err != nil {
		return nil, s.limit.orTooLarge(err)
	}
	return packp.NewUploadPackResponseWithPackfile(request, boundedPack{response, s.limit}), nil
}

type boundedPack struct {
	io.ReadCloser
	limit *sizeLimit
}

func (p boundedPack) Read(data []byte) (int, error) {
	n, err := p.ReadCloser.Read(data)
	return n, p.limit.orTooLarge(err)
}

type boundedReceive struct {
	transport.ReceivePackSession
	limit *sizeLimit
}

func (s boundedReceive) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	refs, err := s.ReceivePackSession.AdvertisedReferencesContext(ctx)
	return refs, s.limit.orTooLarge(err)
}

func (s boundedReceive) ReceivePack(
	ctx context.Context, request *packp.ReferenceUpdateRequest,
) (*packp.ReportStatus, error) {
	report, err := s.ReceivePackSession.ReceivePack(ctx, request)
	return report, s.limit.orTooLarge(err)
}

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
