package pull

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// stageWorkers is the number of contents that are fetched at once, if their total size is at most stageBytes: each
	// needs a multiple of its size in memory. A larger one is fetched alone.
	stageWorkers = 8
	stageBytes   = 4 << 20
)

// errWaiting is the problem of a module whose content is not fetched yet.
var errWaiting = errors.New("its content is being fetched")

// Staging stores the content of every module of a state in several calls. One goroutine uses it.
type Staging struct {
	puller  *Puller
	modules []bundle.Manifest
	// there contains the stored contents, nil before the first call. left contains those to fetch, each once.
	there map[digest.Digest]bool
	left  []bundle.Content
	// failed contains the errors of contents.
	failed map[digest.Digest]error
	// alone reports that contents are stored one after the other, once the API server refused one. Under a tight quota,
	// several incomplete contents would block each other.
	alone bool
}

// Stage returns a Staging for the contents of a state. Modules that failed before come last, so that an unresponsive
// registry does not delay others.
func (p *Puller) Stage(state bundle.DesiredState, before map[string]error) *Staging {
	modules := state.All()
	late := func(m bundle.Manifest) int {
		if before[m.Module] != nil {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(modules, func(a, b bundle.Manifest) int { return late(a) - late(b) })
	s := &Staging{puller: p, modules: modules, failed: map[digest.Digest]error{}}
	for _, why := range before {
		s.alone = s.alone || apierrors.IsForbidden(why)
	}
	return s
}

// Continue fetches contents until it tried all, or for about the duration of the stretch. Missing content affects only
// its own module: problems contains the reasons by module once all are done. err is the error from reading the store,
// and does not concern a module.
func (s *Staging) Continue(
	ctx context.Context, stretch time.Duration,
) (problems map[string]error, done bool, err error) {
	if s.there == nil {
		if err := s.begin(ctx); err != nil {
			return nil, false, err
		}
	}
	var mu sync.Mutex // guards there, left, failed and alone
	ended := time.Now().Add(stretch)
	room := semaphore.NewWeighted(stageBytes)
	var workers errgroup.Group
	workers.SetLimit(stageWorkers)
	next := func() (c bundle.Content, size int64, alone, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(s.left) == 0 {
			return c, 0, false, false
		}
		c = s.left[0]
		if size = min(max(c.SizeBytes, 1), stageBytes); s.alone {
			size = stageBytes
		}
		return c, size, s.alone, true
	}
	for first := true; first || time.Now().Before(ended); first = false {
		c, size, alone, ok := next()
		if !ok || room.Acquire(ctx, size) != nil {
			break // all were tried, or the process ends
		}
		mu.Lock()
		s.left = s.left[1:]
		mu.Unlock()
		workers.Go(func() error {
			defer room.Release(size)
			err := s.puller.stage(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			switch s.there[c.Digest] = err == nil; {
			case err == nil:
			case apierrors.IsForbidden(err) && !alone:
				s.alone, s.left = true, append(s.left, c) // retry it alone
			default:
				s.failed[c.Digest] = err
			}
			return nil
		})
	}
	_ = workers.Wait() // failed has the errors
	if ctx.Err() != nil {
		for _, c := range s.left {
			s.failed[c.Digest] = ctx.Err()
		}
		s.left = nil
	}
	return s.problems(), len(s.left) == 0, nil
}

// begin lists the stored contents in one request.
func (s *Staging) begin(ctx context.Context) error {
	there, err := s.puller.Store.Whole(ctx)
	if err != nil {
		return err
	}
	seen := map[digest.Digest]bool{}
	for _, m := range s.modules {
		for _, c := range m.Content {
			if !there[c.Digest] && !seen[c.Digest] {
				seen[c.Digest] = true
				s.left = append(s.left, c)
			}
		}
	}
	s.there = there
	return nil
}

// Lacks reports whether a content failed or was not fetched yet.
func (s *Staging) Lacks(d digest.Digest) bool {
	return s.failed[d] != nil || slices.ContainsFunc(s.left, func(c bundle.Content) bool { return c.Digest == d })
}

// problems returns the errors by module.
func (s *Staging) problems() map[string]error {
	problems := map[string]error{}
	for _, m := range s.modules {
		for _, c := range m.Content {
			if err := s.failed[c.Digest]; err != nil && problems[m.Module] == nil {
				problems[m.Module] = err
			}
		}
	}
	return problems
}

// Waiting returns the modules whose content failed or was not fetched yet.
func (s *Staging) Waiting() map[string]error {
	waiting := s.problems()
	for _, m := range s.modules {
		for _, c := range m.Content {
			if !s.there[c.Digest] && waiting[m.Module] == nil {
				waiting[m.Module] = errWaiting
			}
		}
	}
	return waiting
}
