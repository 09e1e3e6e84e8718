package bundle

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// rootMaker makes versions of a root of trust with two of three root keys.
type rootMaker struct {
	testing.TB
	keys      []Signer
	publisher Signer
}

func newRootMaker(tb testing.TB) *rootMaker {
	tb.Helper()
	return &rootMaker{tb, []Signer{newSigner(tb), newSigner(tb), newSigner(tb)}, newSigner(tb)}
}

func (m *rootMaker) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *rootMaker) first() Root {
	m.Helper()
	draft := DraftRoot("fleet-a", 1, testNow.AddDate(1, 0, 0))
	for _, key := range m.keys {
		m.must(draft.Add(RoleRoot, publicKey(m, key)))
	}
	draft.SetThreshold(RoleRoot, 2)
	m.must(draft.Add(RolePublisher, publicKey(m, m.publisher)))
	root, err := ParseRoot(m.signed(draft, m.keys[:2]...))
	m.must(err)
	return root
}

func (m *rootMaker) signed(draft *RootDraft, signers ...Signer) []byte {
	m.Helper()
	m.must(draft.Sign(signers...))
	data, err := draft.Bytes()
	m.must(err)
	return data
}

// after makes the next version with a change, signed by keys.
func (m *rootMaker) after(root Root, change func(*RootDraft), signers ...Signer) []byte {
	m.Helper()
	draft, err := root.Draft(testNow.AddDate(1, 0, 0))
	m.must(err)
	change(draft)
	return m.signed(draft, signers...)
}

func nothing(*RootDraft) {}

func TestARootFollowsTheOneBefore(t *testing.T) {
	m := newRootMaker(t)
	first := m.first()
	stranger, other := newSigner(t), newSigner(t)
	rotateAll := func(d *RootDraft) {
		for _, key := range m.keys {
			m.must(d.Remove(RoleRoot, thumbprint(t, key)))
		}
		m.must(d.Add(RoleRoot, publicKey(t, stranger)))
		m.must(d.Add(RoleRoot, publicKey(t, other)))
	}
	skipped := func() []byte {
		second, err := first.Next(m.after(first, nothing, m.keys...))
		m.must(err)
		return m.after(second, nothing, m.keys...)
	}
	revoked := func() Root {
		second, err := first.Next(m.after(first, func(d *RootDraft) { m.must(d.Revoke("dGhpZWY=")) }, m.keys...))
		m.must(err)
		return second
	}
	for name, c := range map[string]struct {
		from Root
		data []byte
		want string
	}{
		"signed by two of three":                {first, m.after(first, nothing, m.keys[1:]...), ""},
		"all root keys change, both sides sign": {first, m.after(first, rotateAll, m.keys[0], m.keys[2], stranger, other), ""},
		"only the old ones sign":                {first, m.after(first, rotateAll, m.keys...), "root of trust: "},
		"only the new ones sign":                {first, m.after(first, rotateAll, stranger, other), "is not signed by those of version 1"},
		"one of two signs":                      {first, m.after(first, nothing, m.keys[0]), "root of trust: "},
		"one signs twice":                       {first, m.after(first, nothing, m.keys[0], m.keys[0]), "root of trust: "},
		"one of two and a stranger":             {first, m.after(first, nothing, m.keys[0], stranger), "root of trust: "},
		"the same version again":                {first, first.Raw, "version 1 does not follow version 1"},
		"a version is left out":                 {first, skipped(), "version 3 does not follow version 1"},
		"a lower epoch":                         {first, m.after(first, func(d *RootDraft) { d.SetEpoch(0) }, m.keys...), "epoch: 0"},
		"another fleet":                         {first, m.after(first, func(d *RootDraft) { d.metadata.Signed.UnrecognizedFields[fieldFleet] = "fleet-b" }, m.keys...), `of fleet "fleet-b"`},
		"no fleet any more":                     {first, m.after(first, func(d *RootDraft) { delete(d.metadata.Signed.UnrecognizedFields, fieldFleet) }, m.keys...), `of fleet ""`},
		"a revocation is taken back":            {revoked(), m.after(revoked(), func(d *RootDraft) { delete(d.metadata.Signed.UnrecognizedFields, fieldRevoked) }, m.keys...), "takes back that key"},
		"a revoked key is listed": {first, m.after(first, func(d *RootDraft) {
			m.must(d.Revoke(thumbprint(t, stranger)))
			m.must(d.Add(RolePublisher, publicKey(t, stranger)))
		}, m.keys...), "is revoked"},
		"without publishers":                     {first, m.after(first, func(d *RootDraft) { m.must(d.Revoke(thumbprint(t, m.publisher))) }, m.keys...), "at least one key is required"},
		"a floor that is no version":             {first, m.after(first, func(d *RootDraft) { d.SetFloor("a.io/b", "x") }, m.keys...), "is not a semantic version"},
		"a release role that nobody can satisfy": {first, m.after(first, func(d *RootDraft) { d.SetThreshold(RoleRelease+"a.io/", 1) }, m.keys...), "threshold: 1 of 0 keys"},
		"a release key that signs no components": {first, m.after(first, func(d *RootDraft) { m.must(d.Add(RoleRelease+"a.io/", publicKey(t, stranger))) }, m.keys...), "want RSA"},
		"garbage":                                {first, []byte("{}"), "root of trust: "},
		"what was changed after it was signed":   {first, []byte(strings.Replace(string(m.after(first, nothing, m.keys...)), "fleet-a", "fleet-c", 1)), "root of trust: "},
		"a second lock": {first, m.after(first, func(d *RootDraft) {
			m.must(d.Add(RoleRelease+"a.io/", &rsaKey(t).PublicKey))
			d.SetFloor("a.io/b", "1.2.0")
		}, m.keys...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			next, err := c.from.Next(c.data)
			if c.want == "" && (err != nil || next.Version != c.from.Version+1) {
				t.Fatalf("got %+v, %v", next, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRevokedKeysSignNothingAnyMore(t *testing.T) {
	m := newRootMaker(t)
	first, replacement := m.first(), newSigner(t)
	second, err := first.Next(m.after(first, func(d *RootDraft) {
		m.must(d.Revoke(thumbprint(t, m.publisher)))
		m.must(d.Add(RolePublisher, publicKey(t, replacement)))
	}, m.keys...))
	m.must(err)
	a := attemptBy(t, m.publisher)
	a.trust.Root = first
	fetched := a.fetched(t)
	if _, err := Verify(fetched, a.trust, a.now); err != nil {
		t.Fatal(err)
	}
	a.trust.Root = second
	_, err = Verify(fetched, a.trust, a.now)
	wantReason(t, err, ReasonUnknownKey)
	if _, err := Adopt(fetched, testRuntime, second, first); RefusalOf(err) == nil {
		t.Error("what a revoked key signed is adopted")
	}
	if _, err := Adopt(fetched, testRuntime, first); err != nil {
		t.Errorf("what was in force before is lost: %v", err)
	}
}

// TestAChainOfRootsIsFollowedInBoundedStretches: whoever has the root keys of one moment could else keep agents busy for good.
func TestAChainOfRootsIsFollowedInBoundedStretches(t *testing.T) {
	m := newRootMaker(t)
	first := m.first()
	place, err := NewPlace(LayoutScheme+filepath.Join(t.TempDir(), "layout"), nil)
	m.must(err)
	last := first
	for range MaxRootHops + 3 {
		last, err = last.Next(m.after(last, nothing, m.keys[:2]...))
		m.must(err)
		m.must(PushRoot(t.Context(), place, last))
	}
	for _, want := range []int64{1 + MaxRootHops, last.Version, last.Version} {
		newest, refusal, _, err := FollowRoot(t.Context(), place, first)
		if err != nil || refusal != nil || newest.Version != want {
			t.Fatalf("from version %d to %d, want %d: %v, %v", first.Version, newest.Version, want, refusal, err)
		}
		first = newest
	}
}

func TestWhoPinsALaterRootIsFollowed(t *testing.T) {
	at := func(epoch, version int64) Root { return Root{Epoch: epoch, Version: version} }
	for name, c := range map[string]struct{ followed, pinned, want Root }{
		"the pinned one is the first":      {at(1, 5), at(1, 1), at(1, 5)},
		"the pinned one is later":          {at(1, 5), at(1, 6), at(1, 6)},
		"started anew with a higher epoch": {at(1, 5), at(2, 1), at(2, 1)},
		"an old pin after starting anew":   {at(2, 1), at(1, 9), at(2, 1)},
		"nothing was followed yet":         {Root{}, at(1, 1), at(1, 1)},
	} {
		if got := Newest(c.followed, c.pinned); got.Epoch != c.want.Epoch || got.Version != c.want.Version {
			t.Errorf("%s: got epoch %d version %d", name, got.Epoch, got.Version)
		}
	}
}

func TestRootsLieInTheRegistryForGood(t *testing.T) {
	m := newRootMaker(t)
	first := m.first()
	place, err := NewPlace(LayoutScheme+filepath.Join(t.TempDir(), "layout"), nil)
	m.must(err)
	for range 2 {
		m.must(PushRoot(t.Context(), place, first))
	}
	data, _, err := FetchRoot(t.Context(), place, 1)
	if err != nil || string(data) != string(first.Raw) {
		t.Errorf("got %q, %v", data, err)
	}
	if _, _, err := FetchRoot(t.Context(), place, 2); !errors.Is(err, ErrNotFound) {
		t.Errorf("a version that is not there: %v", err)
	}
	other := newRootMaker(t).first()
	if err := PushRoot(t.Context(), place, other); err == nil || !strings.Contains(err.Error(), "is another root of trust") {
		t.Errorf("another root in its place: %v", err)
	}
	repository, err := place.Repository(t.Context(), TrustRepository)
	m.must(err)
	blob := NewBlob("application/json", []byte(`{"x":1}`))
	manifest, err := newManifest(ocispec.Manifest{ArtifactType: ArtifactTypeRoot, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{blob.Descriptor}})
	m.must(err)
	m.must(PushBlob(t.Context(), repository, blob))
	m.must(PushManifest(t.Context(), repository, manifest, RootTag(2)))
	_, _, err = FetchRoot(t.Context(), place, 2)
	wantReason(t, err, ReasonBadRoot)
}

func rsaKey(tb testing.TB) *rsa.PrivateKey {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}
