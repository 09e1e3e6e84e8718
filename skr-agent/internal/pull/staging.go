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
	// stageWorkers limits the number of concurrent fetches. stageBytes limits the total size of the blobs that are
	// fetched concurrently, because each needs a multiple of its size in memory.
	stageWorkers = 8
	stageBytes   = 4 << 20
)

// errNotFetched is the error for a module whose content is not fetched yet.
var errNotFetched = errors.New("the content is being fetched")

// Staging fetches and stores all modules' content in several calls. It is not safe for concurrent use.
type Staging struct {
	puller  *Puller
	modules []bundle.Manifest
	// stored contains the digests of blobs in the content store. It is nil before the first call to Continue. pending
	// contains the blobs to fetch.
	stored  map[digest.Digest]bool
	pending []bundle.Content
	// failed contains the errors for blobs that could not be stored.
	failed map[digest.Digest]error
	// If isSequential is true, blobs are stored one after another. Several incomplete blobs could exceed a tight
	// quota for Secrets.
	isSequential bool
}

// StartStaging returns a Staging for a desired state's content. previousErrors contains the errors for modules that
// failed earlier. Their content comes last, so that an unresponsive registry does not delay other modules.
func (p *Puller) StartStaging(state bundle.DesiredState, previousErrors map[string]error) *Staging {
	modules := state.All()
	late := func(m bundle.Manifest) int {
		if previousErrors[m.Module] != nil {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(modules, func(a, b bundle.Manifest) int { return late(a) - late(b) })
	s := &Staging{puller: p, modules: modules, failed: map[digest.Digest]error{}}
	for _, why := range previousErrors {
		s.isSequential = s.isSequential || apierrors.IsForbidden(why)
	}
	return s
}

// Continue fetches content for about the given duration. done is true if it has tried to fetch all content. problems
// contains the error for each module with missing content. err is the error from listing the stored blobs.
func (s *Staging) Continue(
	ctx context.Context, duration time.Duration,
) (problems map[string]error, done bool, err error) {
	if s.stored == nil {
		if err := s.listStored(ctx); err != nil {
			return nil, false, err
		}
	}
	var mu sync.Mutex // guards stored, pending, failed and isSequential
	ended := time.Now().Add(duration)
	room := semaphore.NewWeighted(stageBytes)
	var workers errgroup.Group
	workers.SetLimit(stageWorkers)
	next := func() (c bundle.Content, size int64, alone, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(s.pending) == 0 {
			return c, 0, false, false
		}
		c = s.pending[0]
		if size = min(max(c.SizeBytes, 1), stageBytes); s.isSequential {
			size = stageBytes
		}
		return c, size, s.isSequential, true
	}
	for first := true; first || time.Now().Before(ended); first = false {
		c, size, alone, ok := next()
		if !ok || room.Acquire(ctx, size) != nil {
			break // all blobs were tried, or the process is shutting down
		}
		mu.Lock()
		s.pending = s.pending[1:]
		mu.Unlock()
		workers.Go(func() error {
			defer room.Release(size)
			err := s.puller.storeContent(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			switch s.stored[c.Digest] = err == nil; {
			case err == nil:
			case apierrors.IsForbidden(err) && !alone:
				s.isSequential, s.pending = true, append(s.pending, c) // try again later, without concurrent writes
			default:
				s.failed[c.Digest] = err
			}
			return nil
		})
	}
	_ = workers.Wait() // ignore the error, which is always nil; failed has the errors
	if ctx.Err() != nil {
		for _, c := range s.pending {
			s.failed[c.Digest] = ctx.Err()
		}
		s.pending = nil
	}
	return s.contentErrors(), len(s.pending) == 0, nil
}

// listStored lists the blobs that are already stored.
func (s *Staging) listStored(ctx context.Context) error {
	stored, err := s.puller.Store.ListComplete(ctx)
	if err != nil {
		return err
	}
	seen := map[digest.Digest]bool{}
	for _, m := range s.modules {
		for _, c := range m.Content {
			if !stored[c.Digest] && !seen[c.Digest] {
				seen[c.Digest] = true
				s.pending = append(s.pending, c)
			}
		}
	}
	s.stored = stored
	return nil
}

// IsMissing reports whether a blob has not been fetched yet or could not be stored.
func (s *Staging) IsMissing(d digest.Digest) bool {
	return s.failed[d] != nil || slices.ContainsFunc(s.pending, func(c bundle.Content) bool { return c.Digest == d })
}

// contentErrors returns the error for each module whose content could not be stored.
func (s *Staging) contentErrors() map[string]error {
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

// PendingErrors returns the errors for modules whose content could not be stored or is not fetched yet.
func (s *Staging) PendingErrors() map[string]error {
	waiting := s.contentErrors()
	for _, m := range s.modules {
		for _, c := range m.Content {
			if !s.stored[c.Digest] && waiting[m.Module] == nil {
				waiting[m.Module] = errNotFetched
			}
		}
	}
	return waiting
}
