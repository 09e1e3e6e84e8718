package ui

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const (
	// minRefreshPause is the minimum pause between two evaluations of a changing fleet. The pause also takes at least
	// restShare times as long as the previous evaluation.
	minRefreshPause = time.Second
	restShare       = 10
	// maxRefreshPause is the interval at which an unchanged fleet is evaluated again, because runtimes can become
	// silent without a change to their Kymas.
	maxRefreshPause = 15 * time.Second
)

var errNotReadYet = errors.New("the objects of the control plane are still loading")

// Source provides the current fleet of one namespace. Run updates the fleet after each change. All other methods are
// safe for concurrent use.
type Source struct {
	namespace string
	cache     cache.Cache
	// kyma returns a runtime's Kyma, and kymas returns all Kymas in the fleet. Callers must not modify the returned
	// Kymas.
	kyma   func(context.Context, *fleet.Runtime) (*v1beta2.Kyma, error)
	kymas  func(context.Context) ([]v1beta2.Kyma, error)
	assess func(fleet.Input) fleet.Fleet
	now    func() time.Time

	// changed contains an element if the fleet has changed since the last evaluation.
	changed chan struct{}

	// mu guards the following fields. next is closed and replaced together with current.
	mu      sync.Mutex
	current *snapshot
	next    chan struct{}
	// partialFleet is the incomplete fleet while the Kymas are being read, or nil afterwards. read returns the number
	// of Kymas that have been read.
	partialFleet *snapshot
	read         func() int64
}

// NewSource returns a Source that reads Kymas, Rollouts and ModuleReleaseMetas from a cache. The caller runs the cache.
func NewSource(
	objects cache.Cache, namespace string, assess func(fleet.Input) fleet.Fleet, now func() time.Time,
) *Source {
	s := &Source{
		namespace: namespace,
		cache:     objects,
		assess:    assess,
		now:       now,
		changed:   make(chan struct{}, 1),
		next:      make(chan struct{}),
	}
	s.kyma = func(ctx context.Context, r *fleet.Runtime) (*v1beta2.Kyma, error) {
		kyma := &v1beta2.Kyma{}
		return kyma, objects.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Kyma}, kyma)
	}
	s.kymas = func(ctx context.Context) ([]v1beta2.Kyma, error) {
		var all v1beta2.KymaList
		err := objects.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
		return all.Items, err
	}
	return s
}

// Run evaluates the fleet after each change, until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	for _, kind := range []client.Object{&v1beta2.Kyma{}, &v1beta2.ModuleReleaseMeta{}, &v1alpha1.Rollout{}} {
		informer, err := s.cache.GetInformer(ctx, kind)
		if meta.IsNoMatchError(err) {
			continue // rollouts are not installed in the control plane
		}
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { s.markChanged() }, UpdateFunc: func(any, any) { s.markChanged() }, DeleteFunc: func(any) {
				s.markChanged()
			},
		}); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	// Another goroutine starts the cache. Lists fail until the cache has started.
	if !s.cache.WaitForCacheSync(ctx) {
		return nil
	}
	for {
		began := time.Now()
		if err := s.refresh(ctx); err != nil {
			return err
		}
		if !s.waitForChange(ctx, max(minRefreshPause, restShare*time.Since(began))) {
			return nil
		}
	}
}

func (s *Source) markChanged() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// waitForChange waits for the minimum duration and then for the next change to the fleet. It returns false if ctx has
// ended.
func (s *Source) waitForChange(ctx context.Context, minimum time.Duration) bool {
	if !pause.Sleep(ctx, minimum) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.changed:
	case <-time.After(maxRefreshPause):
	}
	return true
}

// refresh reads the cache and evaluates the fleet. The cached objects must not be modified, because refresh does not
// copy them.
func (s *Source) refresh(ctx context.Context) error {
	var kymas v1beta2.KymaList
	var metas v1beta2.ModuleReleaseMetaList
	var rollouts v1alpha1.RolloutList
	for _, list := range []client.ObjectList{&kymas, &metas, &rollouts} {
		err := s.cache.List(ctx, list, client.InNamespace(s.namespace), client.UnsafeDisableDeepCopy)
		if err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("list %T in %s: %w", list, s.namespace, err)
		}
	}
	s.setFleet(s.assess(fleet.Input{Kymas: kymas.Items, Rollouts: rollouts.Items, Metas: metas.Items, Now: s.now()}))
	return nil
}

// setFleet sets the current fleet, and notifies the pages if the fleet changed.
func (s *Source) setFleet(f fleet.Fleet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && isSameFleet(s.current.Fleet, f) {
		s.current = s.current.at(f.Time)
		return
	}
	var revision uint64
	if s.current != nil {
		revision = s.current.revision
	}
	s.current, s.partialFleet = newSnapshot(f, revision+1), nil
	close(s.next)
	s.next = make(chan struct{})
}

// First sets the fleet to show while the Kymas are being read. For healthy runtimes, this fleet contains only their
// names. read returns the number of Kymas that have been read.
func (s *Source) First(f fleet.Fleet, read func() int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partialFleet, s.read = newSnapshot(f, 0), read
}

type reading struct{ Read, Total int }

// readingProgress returns the incomplete fleet and the progress while the Kymas are being read, and nil afterwards.
func (s *Source) readingProgress() (*snapshot, *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.partialFleet == nil {
		return nil, nil
	}
	total := s.partialFleet.Summary.Total
	return s.partialFleet, &reading{min(int(s.read()), total), total}
}

func isSameFleet(a, b fleet.Fleet) bool {
	a.Time = b.Time
	return reflect.DeepEqual(a, b)
}

// snapshot returns the current fleet, and a channel that is closed when the fleet changes.
func (s *Source) snapshot() (*snapshot, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, s.next, errNotReadYet
	}
	return s.current, s.next, nil
}

// Ready reports whether the control plane has been read for the first time.
func (s *Source) Ready() bool {
	_, _, err := s.snapshot()
	return err == nil
}
