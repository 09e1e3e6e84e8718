package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/rpc"
	"sync"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/hack/lender"
)

// Lender lends the clusters of a pool to the test binaries of a run. hack/lender is its client.
type Lender struct {
	pool     Pool
	progress io.Writer
	sessions sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	borrowers map[net.Conn]bool
	elsewhere int // API servers that borrowers started themselves
	restarts  int // API server restarts by borrowers
	abandoned int // clusters whose borrowers disconnected without Return
}

// NewLender returns a lender that writes errors to progress.
func NewLender(progress io.Writer) *Lender {
	return &Lender{progress: progress, borrowers: map[net.Conn]bool{}}
}

// Serve serves borrowers until the listener is closed. Then it stops all clusters.
func (l *Lender) Serve(listener net.Listener) error {
	for {
		connection, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		} else if err != nil {
			return errors.Join(fmt.Errorf("accept a connection: %w", err), l.pool.Close())
		}
		l.mu.Lock()
		l.borrowers[connection] = true
		l.mu.Unlock()
		l.sessions.Go(func() { l.serve(connection) })
	}
	l.mu.Lock()
	for connection := range l.borrowers {
		_ = connection.Close() // fails only if the borrower has already disconnected
	}
	l.mu.Unlock()
	l.sessions.Wait()
	return l.pool.Close()
}

func (l *Lender) serve(connection net.Conn) {
	s := &session{lender: l}
	methods := rpc.NewServer()
	if err := methods.RegisterName(lender.Service, s); err != nil {
		fmt.Fprintf(l.progress, "lender: %v\n", err)
		_ = connection.Close() // makes the borrower's next RPC call fail
		return
	}
	methods.ServeConn(connection)
	l.mu.Lock()
	delete(l.borrowers, connection)
	l.mu.Unlock()
	if err := s.close(); err != nil {
		fmt.Fprintf(l.progress, "lender: stop the cluster of a disconnected borrower: %v\n", err)
	}
}

// Summary describes how many API servers were started and how often clusters were lent.
func (l *Lender) Summary() string {
	l.pool.mu.Lock()
	started, lent := l.pool.started, l.pool.lent
	l.pool.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf(
		"%d API servers started: %d by the lender for %d loans, %d by tests on their own; %d restarted, %d not "+
			"returned by their test binary",
		started+l.elsewhere,
		started,
		lent,
		l.elsewhere,
		l.restarts,
		l.abandoned,
	)
}

func (l *Lender) count(what *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*what++
}

// session is one connection of a borrower, with at most one borrowed cluster. The borrower calls the exported methods
// by RPC.
type session struct {
	lender *Lender
	mu     sync.Mutex // guards server, and serializes calls that change the cluster
	server *server    // nil before Take and after Return
}

var errNoLoan = errors.New("this connection has not borrowed a cluster")

// Take waits for a cluster and lends it to the borrower.
func (s *session) Take(want lender.Want, place *lender.Place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return errors.New("this connection already has a cluster: open another connection")
	}
	taken, err := s.lender.pool.take(context.Background(), Options{
		Workloads: want.Workloads, Progress: s.lender.progress, CRDs: []fs.FS{charts.PublisherCRDs}, Audit: Audited(),
	})
	if err != nil {
		return err
	}
	s.server, *place = taken, taken.place()
	return nil
}

// AddUser adds a user to the borrowed cluster and returns the user's kubeconfig.
func (s *session) AddUser(user lender.User, kubeconfig *[]byte) error {
	return s.with(func(on *server) (err error) {
		*kubeconfig, err = on.addUser(user)
		return err
	})
}

func (s *session) Pause(_ string, _ *bool) error { return s.with((*server).pause) }

func (s *session) Resume(_ string, _ *bool) error {
	s.lender.count(&s.lender.restarts)
	return s.with((*server).resume)
}

func (s *session) Backup(dir string, _ *bool) error {
	s.lender.count(&s.lender.restarts)
	return s.with(func(on *server) error { return on.backup(dir) })
}

func (s *session) Restore(dir string, _ *bool) error {
	s.lender.count(&s.lender.restarts)
	return s.with(func(on *server) error { return on.restore(dir) })
}

func (s *session) Return(_ bool, _ *bool) error {
	return s.with(func(on *server) error {
		s.server = nil
		return s.lender.pool.giveBack(on)
	})
}

// CountStart counts an API server that the borrower starts itself.
func (s *session) CountStart(_ bool, _ *bool) error {
	s.lender.count(&s.lender.elsewhere)
	return nil
}

func (s *session) with(do func(*server) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return errNoLoan
	}
	return do(s.server)
}

// close stops the cluster of a borrower that disconnected without Return. The pool does not lend this cluster again,
// because programs of the borrower can still write to it.
func (s *session) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	s.lender.count(&s.lender.abandoned)
	left := s.server
	s.server = nil
	return left.stop()
}
