package prune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

const concurrency = 8

// Source is the input of Read: the registry, and data from the control plane.
type Source struct {
	Place store.Store
	// Root and Former are the root of trust versions for verifying bundles.
	Root   trust.Root
	Former []trust.Root
	// Kymas maps each runtime ID to the digests of the bundles in its Kymas' statuses.
	Kymas map[string][]digest.Digest
	// Gone are the IDs of runtimes that an operator declared gone.
	Gone []string
	// Sole is true if no other control plane publishes below the prefix.
	Sole  bool
	Rules Rules
	// MaxChain limits the bundles that are read per runtime. 0 means 20,000.
	MaxChain int
}

type reader struct {
	Source
	mu        sync.Mutex // guards the fields below
	inventory Inventory
	listed    []string                      // repositories that the registry lists, or nil after an error
	holders   map[digest.Digest]stateHolder // by the digest of the desired state
}

// stateHolder is a runtime with a bundle that contains a desired state.
type stateHolder struct {
	runtime  string
	verified bundle.Verified
}

func newReader(source Source) *reader {
	if source.MaxChain == 0 {
		source.MaxChain = maxChain
	}
	return &reader{Source: source, holders: map[digest.Digest]stateHolder{}}
}

// Read returns the inventory. An error means that the registry is unavailable. Problems with single runtimes are in
// Inventory.Unknown.
func Read(ctx context.Context, source Source) (Inventory, error) {
	r := newReader(source)
	r.inventory = Inventory{Contents: map[digest.Digest][]digest.Digest{}, Sole: source.Sole}
	ids, err := r.listRuntimes(ctx)
	if err != nil {
		return Inventory{}, err
	}
	err = forEach(ctx, ids, func(ctx context.Context, id string) error {
		runtime, err := r.runtime(ctx, id)
		return r.addRuntime(runtime, "runtime "+id, err)
	})
	if err == nil {
		err = r.checkList(ctx)
	}
	if err == nil {
		err = r.contents(ctx)
	}
	for _, repository := range []string{bundle.DocumentsRepository, bundle.ContentRepository,
		bundle.CarriedRepository} {
		if err == nil {
			err = r.readShared(ctx, repository)
		}
	}
	slices.SortFunc(r.inventory.Runtimes, func(a, b Runtime) int { return strings.Compare(a.ID, b.ID) })
	byKey := func(a, b Manifest) int { return strings.Compare(a.Key(), b.Key()) }
	slices.SortFunc(r.inventory.Shared, byKey)
	slices.SortFunc(r.inventory.Lists, func(a, b List) int { return byKey(a.Manifest, b.Manifest) })
	slices.Sort(r.inventory.Unknown)
	return r.inventory, err
}

// Refresh reads changed manifests in the inventory again, to shorten the time between reading and removing.
func Refresh(ctx context.Context, source Source, before Inventory) (Inventory, error) {
	r := newReader(source)
	r.inventory = before
	r.inventory.Runtimes, r.inventory.Unknown, r.inventory.Contents = nil, slices.Clone(before.Unknown),
		maps.Clone(before.Contents)
	known := map[string]Runtime{}
	for _, runtime := range before.Runtimes {
		known[runtime.ID] = runtime
	}
	err := forEach(ctx, slices.Sorted(maps.Keys(known)), func(ctx context.Context, id string) error {
		repository, err := r.Place.Reading(ctx, bundle.DesiredRepository(id))
		if err != nil {
			return err
		}
		var newest, now digest.Digest
		if b := known[id].Bundles; len(b) > 0 {
			newest = b[0].Descriptor.Digest
		}
		if now, err = store.Head(ctx, repository, bundle.TagDesired); errors.Is(err, store.ErrNotFound) {
			now, err = "", nil
		}
		if err == nil && now == newest {
			return r.addRuntime(known[id], "", nil)
		}
		runtime := Runtime{}
		if err == nil {
			runtime, err = r.runtime(ctx, id)
		}
		return r.addRuntime(runtime, "runtime "+id, err)
	})
	if err == nil {
		err = r.contents(ctx)
	}
	slices.SortFunc(r.inventory.Runtimes, func(a, b Runtime) int { return strings.Compare(a.ID, b.ID) })
	return r.inventory, err
}

func forEach(ctx context.Context, names []string, visit func(context.Context, string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for _, name := range names {
		group.Go(func() error { return visit(ctx, name) })
	}
	return group.Wait()
}

func (r *reader) addUnknown(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inventory.Unknown = append(r.inventory.Unknown, fmt.Sprintf(format, args...))
}

// addRuntime adds a runtime to the inventory. If it cannot read the runtime, it adds the reason to Inventory.Unknown
// instead, so that the runtime's manifests are not removed.
func (r *reader) addRuntime(runtime Runtime, what string, err error) error {
	if store.IsUnavailable(err) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err != nil {
		r.addUnknown("%s: %v", what, err)
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inventory.Runtimes = append(r.inventory.Runtimes, runtime)
	return nil
}

// listRuntimes returns the runtimes in the control plane and in the registry.
func (r *reader) listRuntimes(ctx context.Context) ([]string, error) {
	all := map[string]bool{}
	for id := range r.Kymas {
		all[id] = true
	}
	for _, id := range r.Gone {
		all[id] = true
	}
	names, err := store.Repositories(ctx, r.Place)
	switch {
	case store.IsUnavailable(err):
		return nil, err
	case err != nil && !r.Sole:
		r.addUnknown("runtimes of other control planes: the registry does not list its repositories: %v", err)
	}
	if err == nil {
		r.listed = names
	}
	for _, name := range names {
		for _, area := range []string{bundle.DesiredRepository(""), bundle.ReportRepository("")} {
			if id, ok := strings.CutPrefix(name, area); ok && trust.CheckRuntimeID(id) == nil {
				all[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// checkList checks that the registry's list contains all repositories that are known to exist, because a registry or
// proxy can omit repositories from the list without an error.
func (r *reader) checkList(ctx context.Context) error {
	if r.Sole || len(r.listed) == 0 {
		return nil // no other control plane publishes here, or the registry lists no repositories
	}
	var there, missing []string
	for _, runtime := range r.inventory.Runtimes {
		if len(runtime.Bundles) > 0 {
			there = append(there, bundle.DesiredRepository(runtime.ID))
		}
	}
	repository, err := r.Place.Reading(ctx, bundle.TrustRepository)
	if err == nil {
		_, err = store.Head(ctx, repository, bundle.RootTag(r.Root.Version))
	}
	if store.IsUnavailable(err) {
		return err
	}
	if err == nil { // the trust repository's name sorts last, so a truncated list omits it
		there = append(there, bundle.TrustRepository)
	}
	listed := map[string]bool{}
	for _, name := range r.listed {
		listed[name] = true
	}
	for _, name := range there {
		if !listed[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		r.addUnknown(
			"runtimes of other control planes: the registry's list of repositories omits %d existing repositories, "+
				"such as %s: use credentials that can list all repositories below the prefix", len(missing),
			slices.Min(missing))
	}
	return nil
}
