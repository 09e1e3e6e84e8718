package controller

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

type agent struct {
	pinned []byte
	// These fields survive a restart of the agent.
	keptRoot, keptAccepted []byte

	root     trust.Root
	accepted bundle.Accepted
}

func (a *agent) restart() error {
	pinned, err := trust.ParseRoot(a.pinned)
	if err != nil {
		return err
	}
	a.root, a.accepted = pinned, bundle.Accepted{}
	if a.keptRoot != nil {
		followed, err := trust.ParseRoot(a.keptRoot)
		if err != nil {
			return err
		}
		a.root = trust.NewestRoot(followed, pinned)
	}
	if a.keptAccepted == nil {
		return nil
	}
	return json.Unmarshal(a.keptAccepted, &a.accepted)
}

func (a *agent) forget() error {
	a.keptRoot, a.keptAccepted = nil, nil
	return a.restart()
}

func (a *agent) follow(ctx context.Context, place store.Store) error {
	newest, _, _, err := store.FollowRoot(ctx, place, a.root)
	if err != nil {
		return err
	}
	a.root, a.keptRoot = newest, newest.Raw
	return nil
}

func (a *agent) poll(ctx context.Context, place store.Store, now time.Time) (*refusal.Error, error) {
	if err := a.follow(ctx, place); err != nil {
		return nil, err
	}
	repository, err := place.Reading(ctx, bundle.DesiredRepository(berlin))
	if err != nil {
		return nil, err
	}
	newest, err := store.Head(ctx, repository, bundle.TagDesired)
	if err != nil || newest == a.accepted.Digest {
		return nil, err
	}
	fetched, err := store.Fetch(ctx, repository, newest.String())
	if err != nil {
		return nil, err
	}
	verified, err := bundle.Verify(fetched, bundle.Trust{Root: a.root, Runtime: berlin, Last: a.accepted}, now)
	if err == nil {
		_, err = store.FetchBundle(ctx, repository, verified)
	}
	if refusal := refusal.Of(err); refusal != nil {
		return refusal, nil
	}
	if err != nil {
		return nil, err
	}
	a.accepted = verified.Accepted
	a.keptAccepted, err = json.Marshal(a.accepted)
	return nil, err
}

// root is the model of one version of the root of trust.
type root struct {
	version, epoch int64
	expires        time.Time
	// signer is the key that signs bundles. listed contains all keys whose bundles are valid.
	signer string
	listed map[string]bool
}

func (r root) next(now time.Time) root {
	r.version++
	r.expires, r.listed = now.AddDate(1, 0, 0), maps.Clone(r.listed)
	return r
}

// madeBundle describes a bundle that the publisher or the attacker created.
type madeBundle struct {
	blob            bundle.Blob
	key, runtime    string
	epoch, sequence int64
	issued, expires time.Time
	// statement identifies the bundle's statement; equal statements have the same number. exchanged is true if the
	// attacker replaced a document after the bundle was signed.
	statement int
	exchanged bool

	predicate bundle.Predicate
	documents *bundle.Documents
}

// model records the steps of a history and applies the rules of docs/concepts/verification.md to them.
type model struct {
	// roots contains the versions of the root of trust, with version 1 at index 0. offered contains the versions in the
	// registry. forged is the version that the attacker has replaced in the registry, or 0.
	roots   []root
	offered map[int64]bool
	forged  int64
	// used is the publisher's signing key. published contains the bundle in the status of each runtime's Kyma. lying is
	// the bundle in the registry repository of runtime berlin.
	used      string
	published map[string]*madeBundle
	bundles   []*madeBundle
	lying     *madeBundle

	// These fields contain the state that the agent is expected to have.
	version int64
	newest  time.Time
	last    struct {
		epoch, sequence int64
		statement       int
	}
	inForce digest.Digest
}

func (m *model) newestRoot() root { return m.roots[len(m.roots)-1] }

func (m *model) offer(version int64) {
	for v := int64(1); v <= version; v++ {
		m.offered[v] = true
	}
}

func (m *model) forget() {
	m.version, m.newest, m.inForce = 1, time.Time{}, ""
	m.last.epoch, m.last.sequence, m.last.statement = 0, 0, -1
}

func (m *model) follow() {
	for m.offered[m.version+1] && m.forged != m.version+1 {
		m.version++
	}
}

// poll returns the decision that the agent must make about the bundle in the registry, and applies it to the model.
func (m *model) poll(clock time.Time) refusal.Reason {
	m.follow()
	if m.lying == nil || m.lying.blob.Descriptor.Digest == m.inForce {
		return ""
	}
	reason := m.judge(clock)
	if reason == "" {
		b := m.lying
		m.last.epoch, m.last.sequence, m.last.statement, m.inForce = b.epoch, b.sequence, b.statement,
			b.blob.Descriptor.Digest
		if b.issued.After(m.newest) {
			m.newest = b.issued
		}
	}
	return reason
}

func (m *model) judge(clock time.Time) refusal.Reason {
	b, root := m.lying, m.roots[m.version-1]
	if m.newest.After(clock) {
		clock = m.newest
	}
	afresh := m.last.epoch < root.epoch
	switch {
	case !root.listed[b.key]:
		return refusal.UnknownKey
	case b.runtime != berlin:
		return refusal.WrongRuntime
	case b.epoch != root.epoch:
		return refusal.WrongEpoch
	case !clock.Before(root.expires):
		return refusal.RootExpired
	case !clock.Before(b.expires):
		return refusal.Expired
	case b.issued.After(clock.Add(24 * time.Hour)):
		return refusal.NotYetIssued
	case !afresh && b.sequence < m.last.sequence:
		return refusal.Rollback
	case !afresh && b.sequence == m.last.sequence && b.statement != m.last.statement:
		return refusal.Equivocation
	case b.exchanged:
		return refusal.WrongDigest
	}
	return ""
}
