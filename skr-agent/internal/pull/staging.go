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

	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// stageWorkers is how many contents are fetched and stored at the same time, as long as they are no larger than stageBytes together: each takes
	// a few times its size in memory. A larger one is fetched alone.
	stageWorkers = 8
	stageBytes   = 4 << 20
)

// errWaiting is why a module waits whose content was not looked for yet.
var errWaiting = errors.New("its content is being fetched")

// Staging makes the content of every module of a state be in the store, stretch by stretch. It is used by one goroutine.
type Staging struct {
	puller  *Puller
	modules []bundle.Manifest
	// there are the contents that are stored, nil before that was looked for; left are those to be fetched, each once.
	there map[digest.Digest]bool
	left  []bundle.Content
	// failed says why a content cannot be had.
	failed map[digest.Digest]error
}

// Stage begins to store the contents of a state, that of the bundle in force or what was chosen from its offers. Modules of which some could not be
// had before come last, so that a registry which does not answer holds up no other.
func (p *Puller) Stage(state bundle.DesiredState, before map[string]error) *Staging {
	modules := state.All()
	late := func(m bundle.Manifest) int {
		if before[m.Module] != nil {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(modules, func(a, b bundle.Manifest) int { return late(a) - late(b) })
	return &Staging{puller: p, modules: modules, failed: map[digest.Digest]error{}}
}

// Continue fetches contents until all were looked for, or for about as long as the stretch. A module whose content cannot be had is the only one to
// suffer: the problems hold the reasons, by module, when it is done. The error says that it cannot be read what is stored, which tells nothing of
// any module.
func (s *Staging) Continue(ctx context.Context, stretch time.Duration) (problems map[string]error, done bool, err error) {
	if s.there == nil {
		if err := s.begin(ctx); err != nil {
			return nil, false, err
		}
	}
	var mu sync.Mutex // guards there and failed
	ended := time.Now().Add(stretch)
	room := semaphore.NewWeighted(stageBytes)
	var workers errgroup.Group
	workers.SetLimit(stageWorkers)
	for first := true; len(s.left) > 0 && (first || time.Now().Before(ended)); first = false {
		c, size := s.left[0], min(max(s.left[0].SizeBytes, 1), stageBytes)
		if err := room.Acquire(ctx, size); err != nil {
			break // the agent is ending
		}
		s.left = s.left[1:]
		workers.Go(func() error {
			defer room.Release(size)
			err := s.puller.stage(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			if s.there[c.Digest] = err == nil; err != nil {
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

// begin looks for what is stored already, in one request.
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

// problems returns why modules cannot be had, by module.
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

// Waiting returns the modules whose content is not stored, because it cannot be had or was not looked for yet.
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
