package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// Memory is what is remembered, outside of the registry, of the bundle that was published last to a runtime. The zero
// value remembers that none was.
type Memory struct {
	Epoch, Sequence int64
	Digest          digest.Digest
	// Versions are those that the runtime was given, by module.
	Versions map[string]string
	// Removals and RolledBackFrom are what that bundle said of modules that go, and of modules that go back.
	Removals       []string
	RolledBackFrom map[string]string
}

// Templates returns the names of the ModuleTemplates that the bundle's modules come from.
func (p *Published) Templates() []string {
	names := make([]string, 0, len(p.State.Manifests))
	for _, m := range p.State.Manifests {
		names = append(names, m.Template)
	}
	return names
}

// Record returns what has to be remembered of a bundle.
func (p *Published) Record() v1beta2.PublishedBundle {
	var from map[string]string
	for _, r := range p.Predicate.Rollback {
		if from == nil {
			from = map[string]string{}
		}
		from[r.Module] = r.From
	}
	commit := ""
	if p.Predicate.Source != nil {
		commit = p.Predicate.Source.Commit
	}
	return v1beta2.PublishedBundle{
		Commit: commit, Removals: slices.Clone(p.Predicate.Removals), Mandatory: p.mandatory(), RolledBackFrom: from,
		Epoch: p.Predicate.Epoch, Sequence: p.Predicate.Sequence, Digest: p.Digest.String(),
		Time: metav1.NewTime(p.Predicate.IssuedAt.Truncate(time.Second)), Versions: maps.Clone(p.Versions), KymaGeneration: p.Predicate.KymaGeneration,
		Certificate: certificateLife(p.Predicate.Certificate),
	}
}

// mandatory returns the mandatory modules of the bundle, sorted.
func (p *Published) mandatory() (modules []string) {
	for _, m := range p.State.Manifests {
		if m.Labels[v1beta2.LabelMandatoryModule] == v1beta2.True {
			modules = append(modules, m.Module)
		}
	}
	slices.Sort(modules)
	return modules
}

// certificateLife returns how long a certificate holds, nil for none. It is the publisher's own, and whoever relies on
// it checks it.
func certificateLife(text string) *v1beta2.CertificateLife {
	from, until, err := trust.CertificateLife(text)
	if text == "" || err != nil {
		return nil
	}
	return &v1beta2.CertificateLife{NotBefore: metav1.NewTime(from), NotAfter: metav1.NewTime(until)}
}

// newer reports whether something later than a bundle is remembered.
func (m *Memory) newer(than *Published) bool {
	return m != nil && (m.Epoch > than.Predicate.Epoch || m.Epoch == than.Predicate.Epoch && m.Sequence > than.Predicate.Sequence)
}

// Stored is what lies in the registry where a runtime's bundle belongs.
type Stored struct {
	// Digest is that of the manifest, empty when there is none.
	Digest digest.Digest
	// Bundle is what it says, nil when no publisher of this fleet ever signed it for the runtime.
	Bundle *Published
	// Key is the thumbprint of the key that signed it.
	Key string
	// Whole reports whether its documents are there; without them, Bundle.State is empty.
	Whole bool
}

// Deviation says that the registry does not hold what was published.
type Deviation struct {
	// Reason is one of those of the condition Registry.
	Reason string
	// Message says what was found and what was expected.
	Message string
}

// Adopted is what a runtime's next bundle follows.
type Adopted struct {
	// Last is the bundle that the next one is compared with, nil for none.
	Last *Published
	// Keep says that Last is known to be what was published last, so that what does not resolve keeps its manifest in it.
	// Of any other bundle nothing is kept: whoever owns the registry chooses what lies there, and an old bundle is signed
	// as well as a new one.
	Keep bool
	// Sequence is the newest known to be used in the root's epoch.
	Sequence int64
	// Deviation is what is wrong in the registry, nil when nothing is.
	Deviation *Deviation
	// Stored is the statement of the bundle that lies in the registry and that a publisher of this fleet signed for the
	// runtime, nil for none.
	Stored *bundle.Predicate
}

// Kept returns the bundle whose manifests may be kept, nil for none.
func (a Adopted) Kept() *Published {
	if a.Keep {
		return a.Last
	}
	return nil
}

// Adopt decides what a runtime's next bundle follows. Own is what this process published or adopted before, remembered
// what its status says (nil where nobody writes one), stored what lies in the registry.
//
// The registry only confirms what is remembered. A bundle that is not the remembered one is adopted in one case: it
// names the remembered one as the one before it, and a publisher key of today's root signed it. That is what a crash
// leaves between a push and the status. There is at most one such bundle, because the next is not pushed before the
// status names the last (see Unrecorded).
func Adopt(own *Published, remembered *Memory, stored Stored, root trust.Root, now time.Time) Adopted {
	last := Memory{}
	if remembered != nil {
		last = *remembered
	}
	if own != nil && remembered.newer(own) {
		own = nil // another publisher was at work
	}
	adopted := Adopted{Last: own, Keep: own != nil}
	if own != nil {
		last = Memory{Epoch: own.Predicate.Epoch, Sequence: own.Predicate.Sequence, Digest: own.Digest, Versions: own.Versions}
	}
	if last.Epoch == root.Epoch {
		adopted.Sequence = last.Sequence
	}
	found, usable := stored.Bundle, stored.usable(root, adopted.Sequence, now)
	if found != nil {
		adopted.Stored = &found.Predicate
	}
	switch {
	case found != nil && found.Digest == last.Digest && stored.Whole:
		adopted.follow(found, last)
	case usable && stored.Whole && last.Digest != "" && follows(found, last):
		adopted.follow(found, last)
		adopted.Sequence = found.Predicate.Sequence
	case usable && stored.Whole && last.Digest == "" && own == nil:
		// Nothing is remembered, and nothing of it is kept: it is compared with what is due.
		adopted.Last, adopted.Sequence = found, found.Predicate.Sequence
	default:
		adopted.Deviation = deviation(stored, last, root, now)
		if usable {
			adopted.Sequence = max(adopted.Sequence, found.Predicate.Sequence)
		}
	}
	return adopted
}

// Unrecorded reports whether the last bundle has to be remembered before another one is pushed: a second one that is
// lost with a crash could not be told from one that somebody else put there.
func (a Adopted) Unrecorded(remembered *Memory) bool {
	return remembered != nil && a.Keep && a.Last.Digest != remembered.Digest
}

// follow takes a bundle as the last one.
func (a *Adopted) follow(found *Published, last Memory) {
	if a.Last == nil || a.Last.Digest != found.Digest {
		next := *found
		next.Versions = versionsAfter(found, last.Versions)
		a.Last = &next
	}
	a.Keep = true
}

// versionsAfter returns what a runtime was given once it has a bundle: what the bundle says, and what was known before
// of modules that it neither has nor removes.
func versionsAfter(p *Published, before map[string]string) map[string]string {
	versions := maps.Clone(before)
	if versions == nil {
		versions = map[string]string{}
	}
	for _, module := range p.Predicate.Removals {
		delete(versions, module)
	}
	maps.Copy(versions, resolve.Versions(p.State))
	return versions
}

// usable reports whether what lies there was signed by a key of today's root, in its epoch, and neither for a time that
// has not come nor far ahead of the last sequence in that epoch, 0 for none: after a clock that was ahead, sequences go
// on by one from the highest.
func (s Stored) usable(root trust.Root, last int64, now time.Time) bool {
	return s.Bundle != nil && root.Trusts(s.Key) && s.Bundle.Predicate.Epoch == root.Epoch && !farAhead(s.Bundle.Predicate.Sequence, last, now)
}

func farAhead(sequence, last int64, now time.Time) bool {
	return Ahead(sequence, now) && (last == 0 || sequence-last > trust.MaxClockSkew.Milliseconds())
}

// Ahead reports whether a sequence, of a bundle or a report, is one that nobody with a right clock gives now.
func Ahead(sequence int64, now time.Time) bool {
	return sequence > now.Add(trust.MaxClockSkew).UnixMilli()
}

func follows(found *Published, last Memory) bool {
	p := found.Predicate
	return p.Epoch == last.Epoch && p.Previous != nil && *p.Previous == bundle.Position{Sequence: last.Sequence, Digest: last.Digest} && p.Sequence > last.Sequence
}

// deviation says why what lies there is not what was published.
func deviation(s Stored, last Memory, root trust.Root, now time.Time) *Deviation {
	expected := "nothing is known to be published"
	if last.Digest != "" {
		expected = fmt.Sprintf("published was %d of epoch %d, %s", last.Sequence, last.Epoch, last.Digest)
	}
	says := func(reason, format string, args ...any) *Deviation {
		return &Deviation{Reason: reason, Message: fmt.Sprintf(format, args...) + ": " + expected}
	}
	found := s.Bundle
	switch {
	case s.Digest == "" && last.Digest == "":
		return nil
	case s.Digest == "":
		return says(v1beta2.ReasonBundleMissing, "the registry has no bundle")
	case found == nil:
		return says(v1beta2.ReasonBundleForeign, "the registry has %s, which no publisher of this fleet signed for the runtime", s.Digest)
	case found.Digest == last.Digest:
		return says(v1beta2.ReasonBundleIncomplete, "the registry has the bundle without its documents")
	case !root.Trusts(s.Key):
		return says(v1beta2.ReasonBundleForeign, "the registry has bundle %d, signed by key %s, which is no publisher key any more", found.Predicate.Sequence, trust.ShortThumbprint(s.Key))
	case found.Predicate.Epoch != root.Epoch && last.Digest == "":
		return nil // of the time before a new epoch, and nothing follows from it
	case found.Predicate.Epoch != root.Epoch:
		return says(v1beta2.ReasonBundleReplayed, "the registry has bundle %d of epoch %d", found.Predicate.Sequence, found.Predicate.Epoch)
	case farAhead(found.Predicate.Sequence, last.Sequence, now):
		return says(v1beta2.ReasonBundleAhead, "the registry has bundle %d, whose sequence is ahead of the time", found.Predicate.Sequence)
	case found.Predicate.Sequence <= last.Sequence:
		return says(v1beta2.ReasonBundleReplayed, "the registry has the older bundle %d, %s", found.Predicate.Sequence, found.Digest)
	case !s.Whole:
		return says(v1beta2.ReasonBundleIncomplete, "the registry has bundle %d without its documents", found.Predicate.Sequence)
	}
	return says(v1beta2.ReasonBundleUnknown, "the registry has bundle %d, %s, which this publisher does not know: another one publishes too, or the control plane lost its memory", found.Predicate.Sequence, found.Digest)
}

// said is what the last bundle that is known said of modules that go, and of modules that go back. What the runtime has
// accepted of it need not be said again.
type said struct {
	digest         digest.Digest
	removals       []string
	rolledBackFrom map[string]string
}

// said returns it by the last bundle, or by what is remembered where that bundle is not at hand.
func (a Adopted) said(remembered *Memory) said {
	switch {
	case a.Last != nil:
		record := a.Last.Record()
		return said{a.Last.Digest, record.Removals, record.RolledBackFrom}
	case remembered != nil:
		return said{remembered.Digest, remembered.Removals, remembered.RolledBackFrom}
	}
	return said{}
}

// rollbacks returns what the next bundle says of modules that go back to an older version. It is said until the runtime
// has accepted a bundle that says so: an agent that was away refuses an older version otherwise.
func (s said) rollbacks(given, wanted map[string]string, observed digest.Digest) (all []bundle.Rollback) {
	from := map[string]string{}
	if observed != s.digest {
		maps.Copy(from, s.rolledBackFrom)
	}
	for module, version := range given {
		if from[module] == "" || bundle.Older(from[module], version) {
			from[module] = version
		}
	}
	for _, module := range slices.Sorted(maps.Keys(from)) {
		if to, asked := wanted[module]; asked && bundle.Older(to, from[module]) {
			all = append(all, bundle.Rollback{Module: module, From: from[module], To: to})
		}
	}
	return all
}
