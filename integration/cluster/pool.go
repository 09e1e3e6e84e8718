package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/hack/pristine"
)

// Pool lends clusters to tests. When a test stops its cluster, the pool restores the cluster's initial state and lends
// it again, which is much faster than starting a new cluster. If the test run has a Lender, the pool borrows its
// clusters from the Lender.
//
// The pool stops a cluster whose initial state it cannot restore. Close stops all other clusters.
type Pool struct {
	mu       sync.Mutex // guards the fields below
	idle     []*server
	starting int
	started  int // number of clusters that were started
	lent     int // number of loans
	closed   bool
	changed  chan struct{} // closed and replaced whenever idle, starting or closed changes
}

// startingAtOnce limits the number of clusters that start at the same time, because a start is CPU-bound.
var startingAtOnce = runtime.NumCPU()

// Audited returns the usernames of kcp-publisher and skr-agent. Every pooled cluster logs their requests, so that all
// tests can share clusters.
func Audited() []string {
	return []string{"system:serviceaccount:kcp-system:kcp-publisher", "system:serviceaccount:kyma-system:skr-agent"}
}

// sharedOptions adds the CRDs of both charts, and the audit log of requests from the publisher and the agent. More
// tests then have the same options and can share clusters.
func sharedOptions(options Options) Options {
	ofChart := func(system fs.FS) bool { return system == charts.PublisherCRDs || system == charts.AgentCRDs }
	if len(options.CRDs) > 0 &&
		!slices.ContainsFunc(options.CRDs, func(system fs.FS) bool { return !ofChart(system) }) {
		options.CRDs = []fs.FS{charts.PublisherCRDs}
	}
	audit := Audited()
	for _, user := range options.Audit {
		if !slices.Contains(audit, user) {
			audit = append(audit, user)
		}
	}
	options.Audit = audit
	return options
}

// canBeLent reports whether the Lender of a test run has clusters with these options.
func canBeLent(options Options) bool {
	return slices.Equal(options.CRDs, []fs.FS{charts.PublisherCRDs}) && slices.Equal(options.Audit, Audited())
}

// Take waits for a cluster and lends it until the caller stops it. A Durable or Measured cluster is always new.
func (p *Pool) Take(ctx context.Context, options Options) (*Cluster, error) {
	if options.Durable || options.Measured {
		return Start(ctx, options)
	}
	options = sharedOptions(options)
	if socket := lender.Socket(); socket != "" && canBeLent(options) {
		loan, err := lender.Borrow(ctx, socket, lender.Want{Workloads: options.Workloads})
		if err != nil {
			return nil, err
		}
		return open(loan.Place, borrowedCluster{loan})
	}
	s, err := p.take(ctx, options)
	if err != nil {
		return nil, err
	}
	return open(s.place(), pooledCluster{s, p})
}

func (p *Pool) take(ctx context.Context, options Options) (*server, error) {
	s, err := p.findOrStart(ctx, options)
	if err != nil {
		return nil, err
	}
	if s.frozen {
		err = s.revive(ctx)
	}
	if err == nil {
		err = s.prepareForBorrower(options.Workloads)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (p *Pool) findOrStart(ctx context.Context, options Options) (*server, error) {
	for {
		p.mu.Lock()
		if s := p.find(options); s != nil {
			p.lent++
			p.mu.Unlock()
			return s, nil
		}
		if p.starting < startingAtOnce {
			p.starting++
			p.started++
			p.lent++
			p.mu.Unlock()
			return p.start(ctx, options)
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a cluster: %w", ctx.Err())
		}
	}
}

func (p *Pool) start(ctx context.Context, options Options) (*server, error) {
	defer p.change(func() { p.starting-- })
	s, err := start(ctx, options)
	if err != nil {
		return nil, err
	}
	config, err := s.place().Config()
	if err == nil {
		s.origin, err = pristine.Take(ctx, config, s.env.ControlPlane.Etcd.URL)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// change updates the pool under its lock and wakes waiting borrowers.
func (p *Pool) change(update func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	update()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// find removes a suitable cluster from the idle clusters. The caller must hold the lock.
func (p *Pool) find(options Options) *server {
	// Prefer a cluster with a running kwok for borrowers that need workloads, and one without kwok for all others.
	better := func(i, j int) bool {
		return j < 0 || (p.idle[i].kwok != nil) == options.Workloads && (p.idle[j].kwok != nil) != options.Workloads
	}
	best := -1
	for i, s := range p.idle {
		if slices.Equal(s.options.CRDs, options.CRDs) && slices.Equal(s.options.Audit, options.Audit) &&
			better(i, best) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	s := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return s
}

// giveBack restores the initial state of a returned cluster and suspends it. If that fails, it stops the cluster.
func (p *Pool) giveBack(s *server) error {
	if err := s.renew(); err != nil {
		fmt.Fprintf(s.progress(), "cluster: not lent again: %v\n", err)
		return s.stop()
	}
	closed := false
	p.change(func() {
		if closed = p.closed; !closed {
			p.idle = append(p.idle, s)
		}
	})
	if closed {
		return s.stop()
	}
	return nil
}

func (s *server) renew() error {
	if s.paused {
		return errors.New("the API server is stopped")
	}
	if err := s.origin.Restore(context.Background()); err != nil {
		return err
	}
	return s.freeze()
}

// Close stops the idle clusters. Borrowed clusters are stopped when they are returned.
func (p *Pool) Close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	problems := make([]error, len(idle))
	var ends sync.WaitGroup
	for i, s := range idle {
		ends.Go(func() { problems[i] = s.stop() })
	}
	ends.Wait()
	return errors.Join(problems...)
}

// pooledCluster is a cluster on loan from a pool in this process.
type pooledCluster struct {
	*server
	pool *Pool
}

func (l pooledCluster) stop() error { return l.pool.giveBack(l.server) }

// borrowedCluster is a cluster on loan from the Lender of the test run.
type borrowedCluster struct{ loan *lender.Loan }

func (b borrowedCluster) addUser(user lender.User) (kubeconfig []byte, err error) {
	err = b.loan.Call("AddUser", user, &kubeconfig)
	return kubeconfig, err
}

func (b borrowedCluster) pause() error             { return b.do("Pause", "") }
func (b borrowedCluster) resume() error            { return b.do("Resume", "") }
func (b borrowedCluster) backup(dir string) error  { return b.do("Backup", dir) }
func (b borrowedCluster) restore(dir string) error { return b.do("Restore", dir) }
func (b borrowedCluster) stop() error              { return b.loan.Return() }

func (b borrowedCluster) do(method, argument string) error {
	var none bool
	return b.loan.Call(method, argument, &none)
}
