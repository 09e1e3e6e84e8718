package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

const (
	fixedSeed     = 5
	keyHistories  = 100 // enough histories to cover all cases of the test
	keySeed       = 7
	steps         = 12
	bundlesLive   = 7 * 24 * time.Hour
	berlin, paris = "berlin", "paris"
)

// Each history is a random sequence of steps by a publisher, an attacker and an agent. The attacker controls the
// registry and all former publisher keys. A model predicts the bundle that the agent applies. The model does not
// share code with the tested packages.
func TestRandomHistoriesFollowTheModel(t *testing.T) {
	for name, run := range historiesToRun(t, keySeed, keyHistories) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := run.seed
			t.Logf("seed %d", seed)
			seen := map[refusal.Reason]int{}
			for number := range run.count {
				h := newHistory(t, rand.New(rand.NewPCG(seed, number)))
				h.run()
				if t.Failed() {
					t.Fatalf("history %d of seed %d:\n%s", number, seed, strings.Join(h.messages, "\n"))
				}
				for reason, n := range h.seen {
					seen[reason] += n
				}
				h.must(os.RemoveAll(h.dir))
			}
			t.Logf("number of polls by result: %v", seen)
			for _, reason := range []refusal.Reason{
				"", refusal.UnknownKey, refusal.WrongRuntime, refusal.WrongEpoch, refusal.RootExpired, refusal.Expired,
				refusal.NotYetIssued, refusal.Rollback, refusal.Equivocation, refusal.WrongDigest,
			} {
				if seen[reason] == 0 && seed == keySeed && run.count >= keyHistories {
					t.Errorf("no history contains a poll with result %q, so the test does not cover it", reason)
				}
			}
		})
	}
}

// history runs one random history: it contains the real publisher and agent, the attacker, and the expected state.
type history struct {
	*testing.T
	random   *rand.Rand
	messages []string
	seen     map[refusal.Reason]int

	dir     string
	place   *attacked
	folder  keys.Folder
	keys    *Keys
	records map[string]*publish.Record
	raw     []trust.Root // all versions of the root
	now     time.Time
	skew    time.Duration // how far the agent's clock is ahead
	fast    bool          // true if berlin requests the fast channel

	// documents are two sets of documents for forged bundles.
	documents [2]bundle.Documents
	// stolen contains the attacker's own key and all former publisher keys.
	stolen []stolenKey

	agent agent
	model model
}

func (h *history) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%v\n%s", err, strings.Join(h.messages, "\n"))
	}
}

func newHistory(t *testing.T, random *rand.Rand) *history {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	h := &history{
		place: &attacked{store.NewMemory(), map[string]bool{}},
		T:     t, random: random, dir: dir, now: noon, seen: map[refusal.Reason]int{},
		folder: keys.Folder{Dir: filepath.Join(dir, "keys")},
	}
	_, err = h.folder.Init(keys.InitOptions{
		Fleet: "fleet", Epoch: 1, RootKeys: 1, Threshold: 1, Expires: h.now.AddDate(1, 0, 0),
	})
	h.must(err)
	h.steal(h.newKey())
	for i, channel := range []string{"regular", "fast"} {
		h.documents[i], err = bundle.NewDocuments(
			bundle.DesiredState{Kyma: bundle.KymaSeed{Spec: v1beta2.KymaSpec{Channel: channel}}}, bundle.Catalog{})
		h.must(err)
		h.must(storetest.ShareDocuments(h.Context(), h.place, h.documents[i]))
	}
	loaded, err := h.folder.Load(t.Context())
	h.must(err)
	h.noteRoot(loaded)
	h.agent.pinned = loaded.Root.Raw
	h.must(h.agent.restart())
	h.restartPublisher()
	return h
}

func (h *history) run() {
	possible := []turn{
		{4, "a bundle is published for berlin", func() { h.publish(berlin) }},
		{2, "berlin's request changes and a bundle is published", func() { h.fast = !h.fast; h.publish(berlin) }},
		{1, "a bundle is published for paris", func() { h.publish(paris) }},
		{1, "the publisher restarts", h.restartPublisher},
		{2, "the publisher reloads its keys", h.takeUpKeys},
		{1, "a refused bundle is reported", func() { h.record(berlin).RequestCheck() }},
		{2, "the publisher's key is rotated", func() { h.rotatePublisher(false) }},
		{1, "the publisher's key is rotated and the old keys are dropped", func() { h.rotatePublisher(true) }},
		{1, "a publisher's key is revoked", h.revoke},
		{1, "a root key is rotated", h.rotateRoot},
		{1, "a new epoch begins", h.newEpoch},
		{1, "the agent restarts", func() { h.must(h.agent.restart()) }},
		{1, "the agent follows the root and is killed", h.pollAndDie},
		{1, "the agent's state is lost", func() { h.must(h.agent.forget()); h.model.forget() }},
		{2, "time passes", func() {
			h.now = h.now.Add(one(h.random, time.Minute, time.Hour, 3*24*time.Hour, 20*24*time.Hour, 200*24*time.Hour))
		}},
		{
			1, "the agent's clock is set", func() {
				h.skew = one(h.random, 0, -time.Hour, time.Hour, -3*365*24*time.Hour, 40*24*time.Hour)
			},
		},
		{3, "an old bundle is pushed again", h.replay},
		{2, "a bundle is forged with a stolen key", h.forge},
		{1, "a bundle's document is replaced", h.exchange},
		{1, "the roots are hidden", h.hideRoots},
		{1, "a root is forged", h.forgeRoot},
		{1, "the next version of the root is replaced with a different version", h.exchangeRoot},
	}
	for range steps {
		next := drawn(h.random, possible)
		h.messages = append(h.messages, next.name)
		next.take()
		if h.random.IntN(2) == 0 {
			h.poll()
		}
		if h.Failed() {
			return
		}
	}
	if h.random.IntN(3) == 0 {
		h.heal()
	}
}

// heal ends the attack and follows the procedure in docs/security/keys.md. The agent must then accept the published
// bundle.
func (h *history) heal() {
	h.messages = append(h.messages, "the attacker leaves")
	h.skew = 0
	h.removeRoots(h.model.forged)
	if h.model.newest.After(h.now) {
		h.must(h.agent.forget()) // the stored verified time is in the future
		h.model.forget()
	}
	h.rotatePublisher(true)
	h.restartPublisher()
	h.fast = !h.fast
	h.publish(berlin)
	h.poll()
	h.messages = append(h.messages, "a new epoch begins, because the attacker's sequences may be far ahead")
	h.newEpoch()
	h.takeUpKeys()
	for range 2 {
		h.fast = !h.fast
		h.now = h.now.Add(time.Minute)
		h.publish(berlin)
		h.poll()
	}
	if h.model.inForce != h.model.lying.blob.Descriptor.Digest && !h.Failed() {
		h.Errorf("the agent has not applied the published bundle: %v", h.model.judge(h.now))
	}
}

func (h *history) poll() {
	want := h.model.poll(h.now.Add(h.skew))
	refused, err := h.agent.poll(h.Context(), h.place, h.now.Add(h.skew))
	if errors.Is(err, store.ErrNotFound) && h.model.lying == nil {
		err = nil
	}
	h.must(err)
	var got refusal.Reason
	if refused != nil {
		got = refused.Reason
	}
	h.seen[got]++
	h.messages = append(h.messages,
		fmt.Sprintf("  root %d, applied sequence %d, refusal %q", h.agent.root.Version, h.agent.accepted.Sequence, got))
	switch {
	case got != want:
		h.Errorf("the agent's refusal is %q (%v), the model wants %q", got, refused, want)
	case h.agent.root.Version != h.model.version:
		h.Errorf("the agent follows root version %d, the model wants %d", h.agent.root.Version, h.model.version)
	case h.agent.accepted.Digest != h.model.inForce:
		h.Errorf("the agent has applied %q, the model wants %q", h.agent.accepted.Digest, h.model.inForce)
	}
}

// pollAndDie simulates a kill of the agent between storing the root and storing the bundle.
func (h *history) pollAndDie() {
	h.model.follow()
	h.must(h.agent.follow(h.Context(), h.place))
	h.must(h.agent.restart())
}

func (h *history) publish(runtime string) {
	spec := v1beta2.KymaSpec{Channel: "regular"}
	if h.fast {
		spec.Channel = "fast"
	}
	snapshot, err := catalog.New(nil, nil)
	h.must(err)
	remembered := &plan.RecordedBundle{}
	if m := h.model.published[runtime]; m != nil {
		*remembered = plan.RecordedBundle{Epoch: m.epoch, Sequence: m.sequence, Digest: m.blob.Descriptor.Digest}
	}
	outcome, err := h.keys.Publisher.Publish(h.Context(), h.record(runtime), publish.Input{
		Runtime: plan.Runtime{ID: runtime, Audience: bundle.Audience{Runtime: runtime}, RecordedBundle: remembered},
		Request: resolve.Request{Seed: spec, Requested: spec}, Catalog: snapshot,
	})
	if err != nil && h.model.forged > 0 && strings.Contains(err.Error(), "is a different root of trust") {
		h.messages = append(h.messages, "  and cannot, until a person removes the forged root")
		h.removeRoots(h.model.forged)
		h.publish(runtime)
		return
	}
	if h.refusedExpired(err) {
		return
	}
	h.must(err)
	if !outcome.IsPushed {
		return
	}
	repository, err := h.place.Reading(h.Context(), bundle.DesiredRepository(runtime))
	h.must(err)
	fetched, err := store.Fetch(h.Context(), repository, outcome.Published.Digest.String())
	h.must(err)
	madeBundle := h.madeBundle(bundle.Blob(fetched), outcome.Published.Predicate, h.model.used)
	h.model.published[runtime] = madeBundle
	if runtime == berlin {
		h.model.lying = madeBundle
	}
	h.model.offer(madeBundle.predicate.RootVersion)
}

// refusedExpired reports whether the root of trust has expired. If it has, err must be a refusal with this reason.
func (h *history) refusedExpired(err error) bool {
	refused, expired := refusal.Of(err), !h.now.Before(h.keys.Publisher.Root().Expires)
	if expired != (refused != nil && refused.Reason == refusal.RootExpired) {
		h.Errorf("the root of trust has expired: %t, but the publisher returned %v", expired, err)
	}
	return expired
}

func (h *history) madeBundle(blob bundle.Blob, p bundle.Predicate, key string) *madeBundle {
	m := &madeBundle{
		blob: blob, key: key, runtime: p.Audience.Runtime, epoch: p.Epoch, sequence: p.Sequence,
		issued: p.IssuedAt, expires: p.ExpiresAt, predicate: p, statement: len(h.model.bundles),
	}
	h.model.bundles = append(h.model.bundles, m)
	return m
}

func (h *history) put(blob bundle.Blob) {
	repository, err := h.place.Repository(h.Context(), bundle.DesiredRepository(berlin))
	h.must(err)
	h.must(store.PushManifest(h.Context(), repository, blob, bundle.TagDesired))
}

func (h *history) replay() {
	if len(h.model.bundles) == 0 {
		return
	}
	h.model.lying = one(h.random, h.model.bundles...)
	h.put(h.model.lying.blob)
}

// forge signs an arbitrary new statement or repeats an older one.
func (h *history) forge() {
	key := one(h.random, h.stolen...)
	issued := h.now.Add(one(h.random, 0, -time.Hour, -30*24*time.Hour, 2*time.Hour, 30*24*time.Hour)).UTC().
		Truncate(time.Millisecond)
	p := bundle.Predicate{
		Audience: bundle.Audience{Runtime: one(h.random, berlin, berlin, berlin, paris)},
		Epoch:    h.model.newestRoot().epoch + int64(h.random.IntN(4)/3),
		IssuedAt: issued, ExpiresAt: issued.Add(one(h.random, bundlesLive, 400*24*time.Hour)),
		RootVersion: h.model.version,
		Sequence:    one(h.random, issued.UnixMilli(), max(1, h.model.last.sequence), math.MaxInt64-4, math.MaxInt64-1),
	}
	statement := -1
	if len(h.model.bundles) > 0 && h.random.IntN(4) == 0 {
		older := one(h.random, h.model.bundles...)
		p, statement = older.predicate, older.statement
		if older.documents != nil { // a forged copy has the same statement
			h.forged(*older.documents, p, key, statement)
			return
		}
		statement = -1
		p.Sequence = max(1, p.Sequence+1) // adding 1 to the maximum overflows
	}
	h.forged(h.documents[h.random.IntN(2)], p, key, statement)
}

func (h *history) forged(documents bundle.Documents, p bundle.Predicate, key stolenKey, statement int) {
	blob, err := bundle.Compose(documents, p, key.signer)
	h.must(err)
	h.messages = append(h.messages,
		fmt.Sprintf("  %s sequence %d of epoch %d, issued %s, statement %d", key.thumbprint[:6], p.Sequence, p.Epoch,
			p.IssuedAt, statement))
	m := h.madeBundle(blob, p, key.thumbprint)
	m.documents = &documents
	for _, before := range h.model.bundles {
		if statement < 0 && before.documents != nil &&
			before.documents.State.Descriptor.Digest == documents.State.Descriptor.Digest &&
			reflect.DeepEqual(before.predicate, p) {
			statement = before.statement // the new statement equals an earlier one by chance
		}
	}
	if statement >= 0 {
		m.statement = statement
	}
	h.model.lying = m
	h.put(blob)
}

// exchange replaces a document of an existing bundle and keeps the bundle's signed statement.
func (h *history) exchange() {
	if h.model.lying == nil {
		return
	}
	m := *h.model.lying
	var manifest ocispec.Manifest
	h.must(json.Unmarshal(m.blob.Bytes, &manifest))
	other := bundle.NewBlob(bundle.MediaTypeDesiredState, []byte(`{"apiVersion":"kyma-pull.dev/v1"}`))
	manifest.Config = other.Descriptor
	data, err := json.Marshal(manifest)
	h.must(err)
	m.blob, m.exchanged, m.documents = bundle.NewBlob(ocispec.MediaTypeImageManifest, data), true, nil
	repository, err := h.place.Repository(h.Context(), bundle.DesiredRepository(berlin))
	h.must(err)
	h.must(store.PushBlob(h.Context(), repository, other))
	h.model.bundles = append(h.model.bundles, &m)
	h.model.lying = &m
	h.put(m.blob)
}

func (h *history) restartPublisher() {
	loaded, err := h.folder.Load(h.Context())
	h.must(err)
	publisher, err := publish.New(publish.Options{
		Place: h.place, Keys: loaded, Validity: bundlesLive, CertificateValidity: bundlesLive,
		Now:        func() time.Time { return h.now },
		Components: component.NewReader(component.Options{Revalidate: time.Hour, RetryAfter: time.Hour}),
	})
	h.must(err)
	h.keys = &Keys{
		KeyOptions: KeyOptions{Folder: h.folder}, Publisher: publisher,
		onChange: func(context.Context) error { return nil },
	}
	h.records = map[string]*publish.Record{}
	h.model.used = h.model.newestRoot().signer
}

func (h *history) record(runtime string) *publish.Record {
	if h.records[runtime] == nil {
		h.records[runtime] = &publish.Record{}
	}
	return h.records[runtime]
}

func (h *history) takeUpKeys() {
	err := h.keys.reloadKeys(quiet(h.Context()))
	if err != nil && h.model.forged > 0 && strings.Contains(err.Error(), "is a different root of trust") {
		h.messages = append(h.messages, "  and cannot, until a person removes the forged root")
		h.removeRoots(h.model.forged)
		err = h.keys.reloadKeys(quiet(h.Context()))
	}
	if !h.refusedExpired(err) {
		h.must(err)
	}
	newest := h.model.newestRoot()
	h.model.used = newest.signer
	h.model.offer(newest.version)
}

// attacked is a registry that an attacker controls. The attacker can read all blobs and remove tags.
type attacked struct {
	*store.Memory
	gone map[string]bool // REPOSITORY:TAG of removed tags
}

func (a *attacked) untag(repository, tag string) { a.gone[repository+":"+tag] = true }

func (a *attacked) Repository(ctx context.Context, name string) (oras.Target, error) {
	target, err := a.Memory.Repository(ctx, "all")
	return attackedRepository{target, name, a.gone}, err
}

func (a *attacked) Reading(ctx context.Context, name string) (oras.ReadOnlyTarget, error) {
	return a.Repository(ctx, name)
}

type attackedRepository struct {
	oras.Target
	name string
	gone map[string]bool
}

func (r attackedRepository) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	if digest.Digest(reference).Validate() == nil {
		return r.Target.Resolve(ctx, reference)
	}
	tag := r.name + ":" + reference
	if r.gone[tag] {
		return ocispec.Descriptor{}, fmt.Errorf("%s: %w", tag, errdef.ErrNotFound)
	}
	return r.Target.Resolve(ctx, tag)
}

func (r attackedRepository) Tag(ctx context.Context, d ocispec.Descriptor, reference string) error {
	tag := r.name + ":" + reference
	delete(r.gone, tag)
	return r.Target.Tag(ctx, d, tag)
}
