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

// Memory is the record, outside of the registry, of the bundle that was last published to a runtime. The zero value
// records no bundle.
type Memory struct {
	Epoch, Sequence int64
	Digest          digest.Digest
	// Versions are the versions that the runtime was given, by module.
	Versions map[string]string
	// Removals and RolledBackFrom are the removed and rolled-back modules in that bundle.
	Removals       []string
	RolledBackFrom map[string]string
}

// Templates returns the names of the ModuleTemplates of the bundle's modules.
func (p *Published) Templates() []string {
	names := make([]string, 0, len(p.State.Manifests))
	for _, m := range p.State.Manifests {
		names = append(names, m.Template)
	}
	return names
}

// Record returns the record of a bundle.
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
		Time: metav1.NewTime(p.Predicate.IssuedAt.Truncate(time.Second)), Versions: maps.Clone(p.Versions),
		KymaGeneration: p.Predicate.KymaGeneration,
		Certificate:    certificateLife(p.Predicate.Certificate),
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

// certificateLife returns the validity of a certificate, nil for none. The publisher issued it, and its users verify
// it.
func certificateLife(text string) *v1beta2.CertificateLife {
	from, until, err := trust.CertificateLife(text)
	if text == "" || err != nil {
		return nil
	}
	return &v1beta2.CertificateLife{NotBefore: metav1.NewTime(from), NotAfter: metav1.NewTime(until)}
}

// newer reports whether the record has a newer bundle than this one.
func (m *Memory) newer(than *Published) bool {
	return m != nil &&
		(m.Epoch > than.Predicate.Epoch || m.Epoch == than.Predicate.Epoch && m.Sequence > than.Predicate.Sequence)
}

// Stored is the content of a runtime's repository in the registry.
type Stored struct {
	// Digest is the digest of the manifest, or empty without a manifest.
	Digest digest.Digest
	// Bundle is the decoded bundle, nil if no publisher of this fleet signed it for the runtime.
	Bundle *Published
	// Key is the thumbprint of the key that signed it.
	Key string
	// Whole is true if the documents of the bundle exist. Without them, Bundle.State is empty.
	Whole bool
}

// Deviation is a difference between the registry and the published bundle.
type Deviation struct {
	// Reason is one of the reasons of the condition Registry.
	Reason string
	// Message names the found and the expected bundle.
	Message string
}

// Adopted is the state that a runtime's next bundle follows.
type Adopted struct {
	// Last is the bundle that the next one is compared with, nil for none.
	Last *Published
	// Keep is true if Last is known to be the last published bundle, so unresolved modules keep their manifest in it.
	// Nothing of any other bundle is kept: the registry's owner chooses its content, and an old bundle has a valid
	// signature, too.
	Keep bool
	// Sequence is the newest used sequence in the root's epoch.
	Sequence int64
	// Deviation is the problem in the registry, nil for none.
	Deviation *Deviation
	// Stored is the statement of the bundle in the registry, if a publisher of this fleet signed it for the runtime,
	// else nil.
	Stored *bundle.Predicate
}

// Kept returns the bundle whose manifests can be kept, nil for none.
func (a Adopted) Kept() *Published {
	if a.Keep {
		return a.Last
	}
	return nil
}

// Adopt decides which bundle a runtime's next bundle follows. own is the last bundle that this process published or
// adopted, remembered the record in the status (nil without a status), and stored the content of the registry.
//
// The registry only confirms the record. A bundle that differs from the record is adopted in one case: it names the
// recorded bundle as its predecessor, and a publisher key of the current root signed it. A crash between a push and the
// status update leaves such a bundle. There is at most one, because the next one is not pushed before the status names
// the last (see Unrecorded).
func Adopt(own *Published, remembered *Memory, stored Stored, root trust.Root, now time.Time) Adopted {
	last := Memory{}
	if remembered != nil {
		last = *remembered
	}
	if own != nil && remembered.newer(own) {
		own = nil // another publisher has published
	}
	adopted := Adopted{Last: own, Keep: own != nil}
	if own != nil {
		last = Memory{
			Epoch: own.Predicate.Epoch, Sequence: own.Predicate.Sequence, Digest: own.Digest, Versions: own.Versions,
		}
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
		// There is no record, so nothing of the bundle is kept. It is compared with the next one.
		adopted.Last, adopted.Sequence = found, found.Predicate.Sequence
	default:
		adopted.Deviation = deviation(stored, last, root, now)
		if usable {
			adopted.Sequence = max(adopted.Sequence, found.Predicate.Sequence)
		}
	}
	return adopted
}

// Unrecorded reports whether the last bundle must be recorded before another one is pushed. After a crash, a second
// unrecorded bundle could not be distinguished from an attacker's.
func (a Adopted) Unrecorded(remembered *Memory) bool {
	return remembered != nil && a.Keep && a.Last.Digest != remembered.Digest
}

// follow makes a bundle the last one.
func (a *Adopted) follow(found *Published, last Memory) {
	if a.Last == nil || a.Last.Digest != found.Digest {
		next := *found
		next.Versions = versionsAfter(found, last.Versions)
		a.Last = &next
	}
	a.Keep = true
}

// versionsAfter returns the given versions of a runtime with a bundle: those in the bundle, and earlier ones of modules
// that it neither contains nor removes.
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

// usable reports whether a key of the current root signed the stored bundle, in the root's epoch, with a plausible
// sequence: neither in the future nor far ahead of the last sequence in that epoch (0 for none). After a clock was
// ahead, sequences increase by one from the highest.
func (s Stored) usable(root trust.Root, last int64, now time.Time) bool {
	return s.Bundle != nil && root.Trusts(s.Key) && s.Bundle.Predicate.Epoch == root.Epoch &&
		!farAhead(s.Bundle.Predicate.Sequence, last, now)
}

func farAhead(sequence, last int64, now time.Time) bool {
	return Ahead(sequence, now) && (last == 0 || sequence-last > trust.MaxClockSkew.Milliseconds())
}

// Ahead reports whether a publisher or agent with a correct clock cannot have issued a sequence by now.
func Ahead(sequence int64, now time.Time) bool {
	return sequence > now.Add(trust.MaxClockSkew).UnixMilli()
}

func follows(found *Published, last Memory) bool {
	p := found.Predicate
	return p.Epoch == last.Epoch && p.Previous != nil &&
		*p.Previous == bundle.Position{Sequence: last.Sequence, Digest: last.Digest} && p.Sequence > last.Sequence
}

// deviation returns the reason why the stored bundle is not the published one.
func deviation(s Stored, last Memory, root trust.Root, now time.Time) *Deviation {
	expected := "nothing is known to be published"
	if last.Digest != "" {
		expected = fmt.Sprintf("published was %d of epoch %d, %s", last.Sequence, last.Epoch, last.Digest)
	}
	deviates := func(reason, format string, args ...any) *Deviation {
		return &Deviation{Reason: reason, Message: fmt.Sprintf(format, args...) + ": " + expected}
	}
	found := s.Bundle
	switch {
	case s.Digest == "" && last.Digest == "":
		return nil
	case s.Digest == "":
		return deviates(v1beta2.ReasonBundleMissing, "the registry has no bundle")
	case found == nil:
		return deviates(v1beta2.ReasonBundleForeign,
			"the registry has %s, which no publisher of this fleet signed for the runtime", s.Digest)
	case found.Digest == last.Digest:
		return deviates(v1beta2.ReasonBundleIncomplete, "the registry has the bundle without its documents")
	case !root.Trusts(s.Key):
		return deviates(v1beta2.ReasonBundleForeign,
			"the registry has bundle %d, signed by key %s, which is no longer a publisher key",
			found.Predicate.Sequence, trust.ShortThumbprint(s.Key))
	case found.Predicate.Epoch != root.Epoch && last.Digest == "":
		return nil // from before a new epoch, so it has no effect
	case found.Predicate.Epoch != root.Epoch:
		return deviates(v1beta2.ReasonBundleReplayed, "the registry has bundle %d of epoch %d",
			found.Predicate.Sequence,
			found.Predicate.Epoch)
	case farAhead(found.Predicate.Sequence, last.Sequence, now):
		return deviates(v1beta2.ReasonBundleAhead, "the registry has bundle %d, whose sequence is ahead of the time",
			found.Predicate.Sequence)
	case found.Predicate.Sequence <= last.Sequence:
		return deviates(v1beta2.ReasonBundleReplayed, "the registry has the older bundle %d, %s",
			found.Predicate.Sequence,
			found.Digest)
	case !s.Whole:
		return deviates(v1beta2.ReasonBundleIncomplete, "the registry has bundle %d without its documents",
			found.Predicate.Sequence)
	}
	return deviates(v1beta2.ReasonBundleUnknown,
		"the registry has bundle %d, %s, which this publisher does not know: another one publishes too, or the "+
			"control plane lost its memory", found.Predicate.Sequence, found.Digest)
}

// lastStated are the removals and rollbacks in the last known bundle. Those that the runtime has accepted need not be
// repeated.
type lastStated struct {
	digest         digest.Digest
	removals       []string
	rolledBackFrom map[string]string
}

// stated returns them from the last bundle, or from the record if that bundle is not available.
func (a Adopted) stated(remembered *Memory) lastStated {
	switch {
	case a.Last != nil:
		record := a.Last.Record()
		return lastStated{a.Last.Digest, record.Removals, record.RolledBackFrom}
	case remembered != nil:
		return lastStated{remembered.Digest, remembered.Removals, remembered.RolledBackFrom}
	}
	return lastStated{}
}

// rollbacks returns the rollbacks of the next bundle. A rollback is repeated until the runtime has accepted a bundle
// with it, because an agent that was offline would otherwise refuse the older version.
func (s lastStated) rollbacks(granted, wanted map[string]string, observed digest.Digest) (all []bundle.Rollback) {
	from := map[string]string{}
	if observed != s.digest {
		maps.Copy(from, s.rolledBackFrom)
	}
	for module, version := range granted {
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
