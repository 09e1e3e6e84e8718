package fleet

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxTimeline is the maximum number of bundles in a timeline.
const maxTimeline = 5

// Bundle describes one of a runtime's last bundles. Only the field Signed is verified.
type Bundle struct {
	Epoch     int64     `json:"epoch,omitempty"`
	Sequence  int64     `json:"sequence"`
	Digest    string    `json:"digest"`
	Published time.Time `json:"published"`
	// Commit is the Git commit that the bundle was built from, or empty.
	Commit string `json:"commit,omitempty"`
	// Changes lists the first version changes in the bundle. More is the number of version changes that Changes omits.
	// Both are unknown if Noted is false.
	Changes []v1beta2.VersionChange `json:"changes,omitempty"`
	More    int32                   `json:"more,omitempty"`
	// Noted is true if the history in the Kyma's status contains the bundle.
	Noted bool `json:"noted,omitempty"`
	// Applied is the time when the runtime first reported the bundle as applied, or nil.
	Applied *time.Time `json:"applied,omitempty"`
	Outcome Outcome    `json:"outcome"`
	// State is the worst state that any of the runtime's modules had while this bundle was the latest, or empty.
	State v1beta2.State `json:"state,omitempty"`
	// Refused is the reason why the runtime refused the bundle, or empty.
	Refused string `json:"refused,omitempty"`
	// Signed is the bundle's identity from its verified signature, or nil.
	Signed *bundle.BundleIdentity `json:"signed,omitempty"`
	// Unverified is the reason why the bundle was not verified, or empty.
	Unverified string `json:"unverified,omitempty"`
}

// Outcome describes in one word whether the runtime applied a bundle.
type Outcome string

// These are the possible outcomes of a bundle.
const (
	// OutcomeInForce means that the runtime's last report contains this bundle as the applied bundle.
	OutcomeInForce Outcome = "InForce"
	// OutcomeWaiting means that this is the latest bundle, and the runtime has not reported it yet.
	OutcomeWaiting Outcome = "Waiting"
	// OutcomeRefused means that the runtime refused the bundle.
	OutcomeRefused Outcome = "Refused"
	// OutcomeApplied means that the runtime applied this bundle, and later applied a newer one.
	OutcomeApplied Outcome = "Applied"
	// OutcomeReplaced means that a newer bundle was published before the runtime reported this one.
	OutcomeReplaced Outcome = "Replaced"
	// OutcomeUnknown means that the Kyma's status does not contain the bundle.
	OutcomeUnknown Outcome = "Unknown"
)

// Chain contains the verified bundles of a runtime that were read from the registry, newest first.
type Chain struct {
	Bundles []bundle.BundleIdentity
	// EndReason is the error that stopped ReadChain before the earliest bundle, or empty.
	EndReason string
	// Asked is true if ReadChain tried to read the registry.
	Asked bool
}

// ReadChain reads a runtime's bundles from the newest to the earliest, and stops at the first error. The function read
// returns the verified identity of the bundle with the given digest.
func ReadChain(kyma *v1beta2.Kyma, read func(digest string) (bundle.BundleIdentity, error)) Chain {
	chain := Chain{Asked: true}
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return chain
	}
	for next := kyma.Status.Runtime.Published.Digest; next != "" && len(chain.Bundles) < maxTimeline; {
		identity, err := read(next)
		if err != nil {
			chain.EndReason = cleanText(err.Error())
			return chain
		}
		chain.Bundles, next = append(chain.Bundles, identity), ""
		if p := identity.Previous; p != nil && p.Sequence < identity.Sequence {
			next = p.Digest.String()
		}
	}
	return chain
}

// Timeline merges the bundles in the history of the Kyma's status and the bundles in the chain, newest first. It
// shortens long strings and removes unprintable characters.
func Timeline(kyma *v1beta2.Kyma, chain Chain) []Bundle {
	r := kyma.Status.Runtime
	if r == nil || r.Published == nil {
		return nil
	}
	observed := ""
	if r.Observed != nil {
		observed = r.Observed.Digest
	}
	var all []Bundle
	for i := range r.History {
		all = append(all, bundleFromRecord(&r.History[i], observed, r.Published.Digest))
	}
	if p := r.Published; !slices.ContainsFunc(all, func(b Bundle) bool { return b.Digest == p.Digest }) {
		all = append(all, Bundle{
			Epoch: p.Epoch, Sequence: p.Sequence, Digest: cleanLine(p.Digest), Published: p.Time.Time,
			Commit: cleanLine(p.Commit), Outcome: bundleOutcome(p.Digest, observed, p.Digest),
		})
	}
	for i := range chain.Bundles {
		all = addIdentity(all, &chain.Bundles[i], observed, r.Published.Digest)
	}
	slices.SortStableFunc(all, func(a, b Bundle) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(b.Sequence, a.Sequence))
	})
	all = all[:min(len(all), maxTimeline)]
	for i := range all {
		if chain.Asked && all[i].Signed == nil {
			all[i].Unverified = cmp.Or(chain.EndReason, "no verified bundle refers to this one")
		}
	}
	return all
}

func bundleFromRecord(b *v1beta2.BundleRecord, observed, newest string) Bundle {
	one := Bundle{
		Epoch: b.Epoch, Sequence: b.Sequence, Digest: cleanLine(b.Digest), Published: b.Published.Time,
		Commit: cleanLine(b.Commit), More: b.More,
		Noted: true, State: b.State, Refused: cleanLine(b.Refused), Outcome: bundleOutcome(b.Digest, observed, newest),
	}
	for _, c := range b.Changes {
		one.Changes = append(one.Changes, v1beta2.VersionChange{
			Module: cleanLine(c.Module), From: cleanLine(c.From), To: cleanLine(c.To),
		})
	}
	switch {
	case b.Applied != nil:
		one.Applied = &b.Applied.Time
		if one.Outcome != OutcomeInForce {
			one.Outcome = OutcomeApplied
		}
	case one.Outcome == OutcomeInForce:
	case b.Refused != "":
		one.Outcome = OutcomeRefused
	case one.Outcome == OutcomeUnknown:
		one.Outcome = OutcomeReplaced
	}
	return one
}

func bundleOutcome(digest, observed, newest string) Outcome {
	switch digest {
	case observed:
		return OutcomeInForce
	case newest:
		return OutcomeWaiting
	}
	return OutcomeUnknown
}

// addIdentity adds the verified identity of a bundle to the timeline. Verified values replace those from the Kyma's
// status.
func addIdentity(all []Bundle, identity *bundle.BundleIdentity, observed, newest string) []Bundle {
	digest := identity.Digest.String()
	at := slices.IndexFunc(all, func(b Bundle) bool { return b.Digest == digest })
	if at < 0 {
		all, at = append(all, Bundle{Digest: digest, Outcome: bundleOutcome(digest, observed, newest)}), len(all)
	}
	b := &all[at]
	b.Epoch, b.Sequence, b.Published, b.Signed, b.Commit = identity.Epoch, identity.Sequence, identity.IssuedAt,
		identity, ""
	if identity.Source != nil {
		b.Commit = cleanLine(identity.Source.Commit)
	}
	return all
}

// Why describes the bundle's version changes in one line.
func (b *Bundle) Why() string {
	var parts []string
	for _, c := range b.Changes {
		switch {
		case c.From == "":
			parts = append(parts, c.Module+" "+c.To)
		case c.To == "":
			parts = append(parts, c.Module+" removed")
		default:
			parts = append(parts, c.Module+" "+c.From+" → "+c.To)
		}
	}
	switch {
	case len(parts) == 0 && b.Noted:
		return "no version changes"
	case len(parts) == 0:
		return "not recorded"
	case b.More == 1:
		parts = append(parts, "and 1 other module")
	case b.More > 1:
		parts = append(parts, "and "+strconv.Itoa(int(b.More))+" other modules")
	}
	return strings.Join(parts, ", ")
}

// OutcomeText describes the outcome of the bundle in a few words.
func (b *Bundle) OutcomeText() string {
	switch b.Outcome {
	case OutcomeInForce, OutcomeApplied:
		word := map[Outcome]string{OutcomeInForce: "in force", OutcomeApplied: "applied"}[b.Outcome]
		if b.State != "" {
			word += ", " + string(b.State)
		}
		return word
	case OutcomeWaiting:
		return "waits for the runtime"
	case OutcomeRefused:
		return "refused: " + b.Refused
	case OutcomeReplaced:
		return "replaced before it was reported"
	}
	return "not recorded"
}
