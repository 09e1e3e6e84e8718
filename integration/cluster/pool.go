package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/kyma-pull/kyma-pull/hack/pristine"
)

// Pool lends clusters. One that is stopped becomes as it was when it was new, and is lent again: this takes a part of a second,
// and the start of an API server seconds of a processor.
//
// A cluster that cannot be made as new is ended. So is what the pool has at its Close.
type Pool struct {
	mu       sync.Mutex // guards what follows
	idle     []*Cluster
	starting int
	closed   bool
	changed  chan struct{} // closed when one of these is another
}

// startingAtOnce is how many clusters start at a time: a start is nothing but work, and meanwhile another may be given back.
var startingAtOnce = runtime.NumCPU()

// Take lends a cluster until its Stop. One that is Durable or Measured is nobody else's before or after.
func (p *Pool) Take(ctx context.Context, options Options) (*Cluster, error) {
	if options.Durable || options.Measured {
		return Start(ctx, options)
	}
	c, err := p.findOrStart(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := c.begin(options); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

func (p *Pool) findOrStart(ctx context.Context, options Options) (*Cluster, error) {
	for {
		p.mu.Lock()
		if c := p.find(options); c != nil {
			p.mu.Unlock()
			return c, nil
		}
		if p.starting < startingAtOnce {
			p.starting++
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

func (p *Pool) start(ctx context.Context, options Options) (*Cluster, error) {
	defer p.change(func() { p.starting-- })
	c, err := Start(ctx, options)
	if err != nil {
		return nil, err
	}
	c.giveBack = p.take
	if c.origin, err = pristine.Take(ctx, c.Config, c.env.ControlPlane.Etcd.URL); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// change changes the pool and tells those who wait.
func (p *Pool) change(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// find takes one from those that nobody has. The caller holds the lock.
func (p *Pool) find(options Options) *Cluster {
	// One whose kwok runs already is the better one for who needs it, and the worse one for who does not.
	better := func(i, j int) bool {
		return j < 0 || (p.idle[i].kwok != nil) == options.Workloads && (p.idle[j].kwok != nil) != options.Workloads
	}
	best := -1
	for i, c := range p.idle {
		if slices.Equal(c.options.CRDs, options.CRDs) && slices.Equal(c.options.Audit, options.Audit) && better(i, best) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	c := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return c
}

// take has a cluster back that was lent.
func (p *Pool) take(c *Cluster) error {
	if err := c.renew(); err != nil {
		fmt.Fprintf(c.progress(), "cluster: not lent again: %v\n", err)
		return c.end()
	}
	closed := false
	p.change(func() {
		if closed = p.closed; !closed {
			p.idle = append(p.idle, c)
		}
	})
	if closed {
		return c.end()
	}
	return nil
}

func (c *Cluster) renew() error {
	if c.paused {
		return errors.New("its API server is stopped")
	}
	return c.origin.Restore(context.Background())
}

// Close ends the clusters that nobody has, and those that somebody has when they are given back.
func (p *Pool) Close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	problems := make([]error, len(idle))
	var ends sync.WaitGroup
	for i, c := range idle {
		ends.Go(func() { problems[i] = c.end() })
	}
	ends.Wait()
	return errors.Join(problems...)
}
