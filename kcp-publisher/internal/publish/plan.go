package publish

import (
	"crypto"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

// Published is a bundle as it lies in the registry.
type Published struct {
	Predicate bundle.Predicate
	Digest    digest.Digest
	State     bundle.DesiredState
	// StateDigest and CatalogDigest are those of the two documents.
	StateDigest   digest.Digest
	CatalogDigest digest.Digest
}

// Runtime is what is known of a runtime apart from its wishes.
type Runtime struct {
	ID string
	// Audience says whom exactly the bundle is for.
	Audience bundle.Audience
	// Key is the runtime's enrolled key, nil before enrolment; Requests says that it asked for a certificate.
	Key      crypto.PublicKey
	Requests bool
	// Certificate is the one that the next bundle brings, empty for none.
	Certificate string
	// KymaGeneration is that of the runtime's Kyma whose spec is resolved, 0 before it is known.
	KymaGeneration int64
	// Deleting says that the Kyma is deleted in the control plane: the next bundle is the last.
	Deleting bool
	// Validity is how long its bundles must live at least, because they are on their way for that long; 0 asks for nothing.
	Validity time.Duration
	// LastSequence is the newest sequence that the control plane remembers having published, in LastEpoch; the registry may remember less.
	LastSequence int64
	LastEpoch    int64
	// Versions are the modules that the control plane remembers having published, with their versions.
	Versions map[string]string
	// Installed are the modules that the runtime last said it has, and Observed the bundle it said so about.
	Installed []string
	Observed  digest.Digest
	// Source is the commit that is current, nil where there is none. It is told by a bundle that is needed and makes none needed.
	Source *bundle.Source
	// Secrets are those for the runtime, nil when nothing is to be said about them.
	Secrets *Secrets
	// Sealed is what the next bundle says about them.
	Sealed *bundle.Sealed
}

// lastBundleValidity is the life of a bundle that says goodbye: a runtime may be carried, switched off, or away for a season.
const lastBundleValidity = 365 * 24 * time.Hour

// Plan decides whether a runtime needs a new bundle and what the bundle says. It is pure.
//
// A bundle is needed when its content differs from the last one's, when a module is to be removed that the last one did not
// name, when it answers another wish, brings another certificate or goes to a changed audience, when the root of trust changed, when the last one is not the newest that was published, or
// when a third of its life is over.
func Plan(last *Published, documents bundle.Documents, asked []string, r Runtime, root trust.Root, validity time.Duration, now time.Time) (bundle.Predicate, bool) {
	next := bundle.Predicate{
		Audience: r.Audience, Epoch: root.Epoch, RootVersion: root.Version,
		IssuedAt: now.UTC().Truncate(time.Millisecond), ExpiresAt: now.UTC().Truncate(time.Millisecond).Add(validity),
		KymaGeneration: r.KymaGeneration, Deleting: r.Deleting, Source: r.Source, Certificate: r.Certificate, Sealed: r.Sealed,
	}
	if r.Deleting {
		// Nobody renews it: the Kyma may be gone long before its runtime looks again.
		next.ExpiresAt = next.IssuedAt.Add(max(validity, lastBundleValidity))
	}
	// A new epoch starts over, also after sequences so far ahead that nobody could go on from there.
	var remembered, lastSequence int64
	if r.LastEpoch == root.Epoch {
		remembered, lastSequence = r.LastSequence, r.LastSequence
	}
	if last != nil {
		if last.Predicate.Epoch == root.Epoch {
			lastSequence = max(lastSequence, last.Predicate.Sequence)
		}
		next.Previous = &bundle.Position{Sequence: last.Predicate.Sequence, Digest: last.Digest}
	}
	next.Sequence = bundle.NextSequence(lastSequence, now)
	next.Removals = removals(last, asked, r)
	if last == nil {
		return next, true
	}
	p := last.Predicate
	due := p.IssuedAt.Add(p.ExpiresAt.Sub(p.IssuedAt) / 3)
	needed := documents.State.Descriptor.Digest != last.StateDigest ||
		documents.Catalog.Descriptor.Digest != last.CatalogDigest ||
		slices.ContainsFunc(next.Removals, func(m string) bool { return !slices.Contains(p.Removals, m) }) ||
		slices.ContainsFunc(p.Removals, func(m string) bool { return slices.Contains(asked, m) }) ||
		p.Deleting != next.Deleting || revision(p.Sealed) != revision(next.Sealed) ||
		p.Audience != next.Audience || p.KymaGeneration != next.KymaGeneration ||
		p.Certificate != next.Certificate ||
		p.Epoch != next.Epoch || p.RootVersion != next.RootVersion ||
		p.Sequence < remembered || // an older bundle was put back: runtimes refuse it
		p.ExpiresAt.Sub(p.IssuedAt) < r.Validity || // it would be over before it is carried
		!now.Before(due)
	return next, needed
}

// removals are what may be in the runtime and is not asked for any more. A module stays among them until the runtime, living
// by a bundle that said so, no longer lists it: an agent that was away must still learn of it.
func removals(last *Published, asked []string, r Runtime) []string {
	known := slices.Collect(maps.Keys(r.Versions))
	known = append(known, r.Installed...)
	confirmed := map[string]bool{}
	if last != nil {
		known = append(known, last.Predicate.Removals...)
		known = append(known, slices.Collect(maps.Keys(resolve.Versions(last.State)))...)
		if r.Observed == last.Digest {
			for _, module := range last.Predicate.Removals {
				confirmed[module] = !slices.Contains(r.Installed, module)
			}
		}
	}
	return resolve.Removals(known, asked, confirmed)
}
