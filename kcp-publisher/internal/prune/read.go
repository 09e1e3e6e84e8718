package prune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

const (
	// concurrency bounds the requests at once.
	concurrency = 8
	// maxChain bounds the bundles of one runtime that are looked at: one every hour for a quarter of a year.
	maxChain = 2000
)

// Source is where an inventory comes from.
type Source struct {
	Place store.Store
	// Root verifies bundles, as do the Former versions of it.
	Root   trust.Root
	Former []trust.Root
	// Kymas are the bundles that the control plane remembers, by runtime; all its runtimes are there.
	Kymas map[string][]digest.Digest
	// Gone are runtimes that somebody says do not exist any more.
	Gone []string
	// Sole says that no other control plane publishes below the prefix.
	Sole  bool
	Rules Rules
}

// reader reads an inventory.
type reader struct {
	Source
	mu        sync.Mutex // guards what follows
	inventory Inventory
	verified  map[digest.Digest]bundle.Verified // of bundles that are in use
	holders   map[digest.Digest]string          // a runtime that has the state
}

// Read makes the inventory. The error is only of a registry that cannot be used at all; what is wrong with one runtime is in Unknown.
func Read(ctx context.Context, source Source) (Inventory, error) {
	r := &reader{Source: source, verified: map[digest.Digest]bundle.Verified{}, holders: map[digest.Digest]string{}}
	r.inventory = Inventory{Contents: map[digest.Digest][]digest.Digest{}, Sole: source.Sole}
	ids, err := r.ids(ctx)
	if err != nil {
		return Inventory{}, err
	}
	err = each(ctx, ids, func(ctx context.Context, id string) error {
		runtime, err := r.runtime(ctx, id)
		return r.took(runtime, "runtime "+id, err)
	})
	if err == nil {
		err = r.contents(ctx)
	}
	for _, repository := range []string{bundle.DocumentsRepository, bundle.ContentRepository, bundle.CarriedRepository} {
		if err == nil {
			err = r.shared(ctx, repository)
		}
	}
	slices.SortFunc(r.inventory.Runtimes, func(a, b Runtime) int { return strings.Compare(a.ID, b.ID) })
	byKey := func(a, b Manifest) int { return strings.Compare(a.Key(), b.Key()) }
	slices.SortFunc(r.inventory.Shared, byKey)
	slices.SortFunc(r.inventory.Lists, func(a, b List) int { return byKey(a.Manifest, b.Manifest) })
	slices.Sort(r.inventory.Unknown)
	return r.inventory, err
}

// Refresh reads again what changed since the inventory was made, so that the time between looking and removing is short.
func Refresh(ctx context.Context, source Source, before Inventory) (Inventory, error) {
	r := &reader{Source: source, verified: map[digest.Digest]bundle.Verified{}, holders: map[digest.Digest]string{}, inventory: before}
	r.inventory.Runtimes, r.inventory.Unknown, r.inventory.Contents = nil, slices.Clone(before.Unknown), maps.Clone(before.Contents)
	known := map[string]Runtime{}
	for _, runtime := range before.Runtimes {
		known[runtime.ID] = runtime
	}
	err := each(ctx, slices.Sorted(maps.Keys(known)), func(ctx context.Context, id string) error {
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
			return r.took(known[id], "", nil)
		}
		runtime := Runtime{}
		if err == nil {
			runtime, err = r.runtime(ctx, id)
		}
		return r.took(runtime, "runtime "+id, err)
	})
	if err == nil {
		err = r.contents(ctx)
	}
	slices.SortFunc(r.inventory.Runtimes, func(a, b Runtime) int { return strings.Compare(a.ID, b.ID) })
	return r.inventory, err
}

func each(ctx context.Context, names []string, do func(context.Context, string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for _, name := range names {
		group.Go(func() error { return do(ctx, name) })
	}
	return group.Wait()
}

func (r *reader) unknown(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inventory.Unknown = append(r.inventory.Unknown, fmt.Sprintf(format, args...))
}

// took keeps what was read of a runtime. One that could not be read stays as it is, and what it needs is not known.
func (r *reader) took(runtime Runtime, what string, err error) error {
	if store.Unavailable(err) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err != nil {
		r.unknown("%s: %v", what, err)
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inventory.Runtimes = append(r.inventory.Runtimes, runtime)
	return nil
}

// ids returns the runtimes of the control plane and those that the registry lists.
func (r *reader) ids(ctx context.Context) ([]string, error) {
	all := map[string]bool{}
	for id := range r.Kymas {
		all[id] = true
	}
	for _, id := range r.Gone {
		all[id] = true
	}
	names, err := store.Repositories(ctx, r.Place)
	switch {
	case store.Unavailable(err):
		return nil, err
	case err != nil && !r.Sole:
		r.unknown("runtimes of other control planes: the registry does not list its repositories: %v", err)
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

// runtime reads the repositories of one.
func (r *reader) runtime(ctx context.Context, id string) (Runtime, error) {
	remembered, kyma := r.Kymas[id]
	runtime := Runtime{ID: id, Kyma: kyma, Gone: slices.Contains(r.Gone, id), Remembered: remembered}
	repository, err := r.Place.Reading(ctx, bundle.DesiredRepository(id))
	if err == nil {
		err = r.history(ctx, repository, &runtime)
	}
	if err == nil {
		err = signatures(ctx, repository, &runtime)
	}
	if err != nil {
		return runtime, err
	}
	reports, err := r.Place.Reading(ctx, bundle.ReportRepository(id))
	if err != nil {
		return runtime, err
	}
	switch m, _, err := manifest(ctx, reports, bundle.ReportRepository(id), bundle.TagLatest); {
	case err == nil:
		m.Tags = []string{bundle.TagLatest}
		runtime.Reports = []Manifest{m}
	case !errors.Is(err, store.ErrNotFound):
		return runtime, err
	}
	used, _ := InUse(runtime, r.Rules)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range used {
		r.holders[b.State] = id
	}
	return runtime, nil
}

// chain reads a bundle and those before it.
func (r *reader) chain(ctx context.Context, repository store.Reader, runtime *Runtime, reference string) error {
	var tags []string
	if reference == bundle.TagDesired {
		tags = []string{reference}
	}
	next := r.Rules.Now // when the bundle after it was issued
	for range maxChain {
		fetched, err := store.Fetch(ctx, repository, reference)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		verified, err := bundle.Adopt(fetched, runtime.ID, r.Root, r.Former...)
		if err == nil && tags == nil && verified.Digest.String() != reference {
			err = fmt.Errorf("bundle %s: the registry returned %s", reference, verified.Digest)
		}
		if err != nil && tags == nil && r.Rules.Now.Sub(next) >= r.Rules.MinAge {
			return nil // what this fleet's keys do not vouch for ends what is known
		}
		if err != nil {
			return fmt.Errorf("bundle %s: %w", reference, err)
		}
		predicate := verified.Statement.Predicate
		runtime.Bundles = append(runtime.Bundles, Bundle{
			Manifest: Manifest{
				Repository: bundle.DesiredRepository(runtime.ID), Tags: tags, Blobs: []ocispec.Descriptor{verified.Config, verified.Catalog},
				Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: verified.Digest, Size: int64(len(fetched.Bytes))},
			},
			IssuedAt: predicate.IssuedAt, ExpiresAt: predicate.ExpiresAt, State: verified.Config.Digest, Catalog: verified.Catalog.Digest,
		})
		r.mu.Lock()
		r.verified[verified.Config.Digest] = verified
		r.mu.Unlock()
		if predicate.Previous == nil {
			return nil
		}
		reference, tags, next = predicate.Previous.Digest.String(), nil, predicate.IssuedAt
		if slices.ContainsFunc(runtime.Bundles, func(b Bundle) bool { return b.Descriptor.Digest.String() == reference }) {
			return nil
		}
	}
	return fmt.Errorf("more than %d bundles before the newest: collect untagged manifests with the registry's own garbage collection", maxChain)
}

// history reads the newest bundle and those before it, then those that are remembered and that no chain leads to any more.
func (r *reader) history(ctx context.Context, repository store.Reader, runtime *Runtime) error {
	if err := r.chain(ctx, repository, runtime, bundle.TagDesired); err != nil {
		return err
	}
	for _, d := range runtime.Remembered {
		if d == "" || slices.ContainsFunc(runtime.Bundles, func(b Bundle) bool { return b.Descriptor.Digest == d }) {
			continue
		}
		if err := r.chain(ctx, repository, runtime, d.String()); err != nil {
			return err
		}
	}
	return nil
}

// signatureTag is the tag of a manifest's referrers in registries without the referrers API.
//
// Source: OCI distribution-spec 1.1, "Referrers Tag Schema".
var signatureTag = regexp.MustCompile(`^sha256-([0-9a-f]{64})$`)

// signatures reads what --attach-cosign wrote, and which manifests other tags name.
func signatures(ctx context.Context, repository store.Reader, runtime *Runtime) error {
	tags, err := store.Tags(ctx, repository)
	if err != nil {
		return err
	}
	name := bundle.DesiredRepository(runtime.ID)
	for _, tag := range tags {
		if tag == bundle.TagDesired {
			continue
		}
		m, data, err := manifest(ctx, repository, name, tag)
		if err != nil {
			return fmt.Errorf("tag %s: %w", tag, err)
		}
		found := signatureTag.FindStringSubmatch(tag)
		var index ocispec.Index
		ours := found != nil && json.Unmarshal(data, &index) == nil && index.MediaType == ocispec.MediaTypeImageIndex && len(index.Manifests) > 0 &&
			!slices.ContainsFunc(index.Manifests, func(d ocispec.Descriptor) bool {
				return d.MediaType != ocispec.MediaTypeImageManifest || d.ArtifactType != bundle.MediaTypeSigstoreBundle
			})
		if !ours {
			runtime.Named = append(runtime.Named, m.Descriptor.Digest)
			if found != nil { // somebody refers to the bundle
				runtime.Named = append(runtime.Named, digest.NewDigestFromEncoded(digest.SHA256, found[1]))
			}
			continue
		}
		m.Tags = []string{tag}
		s := Signature{Subject: digest.NewDigestFromEncoded(digest.SHA256, found[1]), Index: m}
		for _, d := range index.Manifests {
			s.Referrers = append(s.Referrers, Manifest{Repository: name, Descriptor: d})
		}
		runtime.Signatures = append(runtime.Signatures, s)
	}
	return nil
}

// contents reads what the states of bundles in use need.
func (r *reader) contents(ctx context.Context) error {
	states := map[string]digest.Digest{}
	for state := range r.holders {
		states[state.String()] = state
	}
	return each(ctx, slices.Sorted(maps.Keys(states)), func(ctx context.Context, name string) error {
		state := states[name]
		r.mu.Lock()
		runtime, verified := r.holders[state], r.verified[state]
		r.mu.Unlock()
		repository, err := r.Place.Reading(ctx, bundle.DesiredRepository(runtime))
		var opened bundle.Bundle
		if err == nil {
			opened, err = store.FetchBundle(ctx, repository, verified)
		}
		if store.Unavailable(err) {
			return err
		}
		if err != nil {
			r.unknown("desired state %s of runtime %s: %v", state, runtime, err)
			return nil
		}
		var needs []digest.Digest
		for _, m := range slices.Concat(opened.State.All(), opened.State.Offers) {
			for _, c := range slices.Concat(m.Content, m.Release) {
				needs = append(needs, c.Digest)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inventory.Contents[state] = needs
		return nil
	})
}

// tagsOf are the prefixes of tags that are understood, by repository.
var tagsOf = map[string]string{bundle.DocumentsRepository: "set-", bundle.ContentRepository: "blob-", bundle.CarriedRepository: "list-"}

// shared reads a repository of which each manifest has a tag. What it does not understand is left out. A listing that fails leaves out all.
func (r *reader) shared(ctx context.Context, name string) error {
	repository, err := r.Place.Reading(ctx, name)
	if err != nil {
		return err
	}
	tags, err := store.Tags(ctx, repository)
	if store.Unavailable(err) {
		return err
	}
	if err != nil {
		r.unknown("repository %s: %v", name, err)
		return nil
	}
	var mu sync.Mutex
	found, foreign := map[digest.Digest]Manifest{}, map[digest.Digest]bool{}
	lists := map[digest.Digest]time.Time{}
	err = each(ctx, tags, func(ctx context.Context, tag string) error {
		m, data, err := manifest(ctx, repository, name, tag)
		if errors.Is(err, store.ErrNotFound) {
			return nil // it went meanwhile
		}
		if err != nil {
			return fmt.Errorf("repository %s: tag %s: %w", name, tag, err)
		}
		mu.Lock()
		defer mu.Unlock()
		d := m.Descriptor.Digest
		expires, understood := r.understood(name, tag, m, data)
		if !understood {
			foreign[d] = true
			return nil
		}
		m.Tags = append(found[d].Tags, tag)
		found[d], lists[d] = m, expires
		return nil
	})
	if store.Unavailable(err) {
		return err
	}
	if err != nil {
		r.unknown("%v", err)
		return nil
	}
	for d, m := range found {
		switch {
		case foreign[d]:
		case name == bundle.CarriedRepository:
			r.inventory.Lists = append(r.inventory.Lists, List{Manifest: m, ExpiresAt: lists[d]})
		default:
			r.inventory.Shared = append(r.inventory.Shared, m)
		}
	}
	return nil
}

// understood reports whether a manifest is one that a publisher writes under such a tag, and when a list expires.
func (r *reader) understood(name, tag string, m Manifest, data []byte) (expires time.Time, ok bool) {
	if !strings.HasPrefix(tag, tagsOf[name]) {
		return time.Time{}, false
	}
	fetched := bundle.Fetched{Descriptor: m.Descriptor, Bytes: data}
	if name == bundle.CarriedRepository {
		list, err := bundle.VerifyCarried(fetched, r.Root)
		return list.Predicate.ExpiresAt, err == nil && tag == bundle.CarriedTag(list.List.Digest)
	}
	_, refused := bundle.ReadManifest(fetched, bundle.ArtifactTypeContent)
	return time.Time{}, refused == nil && len(m.Blobs) > 0
}

// manifest fetches what a tag or digest names.
func manifest(ctx context.Context, repository store.Reader, name, reference string) (Manifest, []byte, error) {
	fetched, err := store.Fetch(ctx, repository, reference)
	if err != nil {
		return Manifest{}, nil, err
	}
	d := fetched.Descriptor
	d.Digest, d.Size = digest.FromBytes(fetched.Bytes), int64(len(fetched.Bytes))
	m := Manifest{Repository: name, Descriptor: d}
	var parts ocispec.Manifest
	if err := json.Unmarshal(fetched.Bytes, &parts); err != nil {
		return m, fetched.Bytes, nil //nolint:nilerr // what it is made of is not understood
	}
	for _, blob := range slices.Concat([]ocispec.Descriptor{parts.Config}, parts.Layers) {
		if blob.Digest != "" && blob.Digest != ocispec.DescriptorEmptyJSON.Digest {
			m.Blobs = append(m.Blobs, blob)
		}
	}
	return m, fetched.Bytes, nil
}
