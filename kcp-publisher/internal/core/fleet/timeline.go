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

// maxTimeline is how many bundles a timeline has. It bounds what the registry is asked for, too.
const maxTimeline = 5

// Bundle is one of a runtime's last bundles. What Signed has, the bundle proves; all else is what the publisher noted
// in the Kyma's status.
type Bundle struct {
	Epoch     int64     `json:"epoch,omitempty"`
	Sequence  int64     `json:"sequence"`
	Digest    string    `json:"digest"`
	Published time.Time `json:"published"`
	// Commit is that of the repository which the control plane followed, empty for none.
	Commit string `json:"commit,omitempty"`
	// Changes are the first modules whose version it changes, More how many others there are. Nobody knows them of a
	// bundle without Noted.
	Changes []v1beta2.VersionChange `json:"changes,omitempty"`
	More    int32                   `json:"more,omitempty"`
	// Noted says that the status remembers what became of it.
	Noted bool `json:"noted,omitempty"`
	// Applied is when the runtime was first heard to have applied it, nil where that is not known.
	Applied *time.Time `json:"applied,omitempty"`
	Outcome Outcome    `json:"outcome"`
	// State is the worst of its modules' states that was known last while it was the newest, empty where none was.
	State v1beta2.State `json:"state,omitempty"`
	// Refused is the runtime's reason for refusing it.
	Refused string `json:"refused,omitempty"`
	// Signed is what the bundle itself says, verified against the root of trust; nil where it was not.
	Signed *bundle.BundleIdentity `json:"signed,omitempty"`
	// Unverified is why it was not verified, empty where it was and where the registry was not asked.
	Unverified string `json:"unverified,omitempty"`
}

// Outcome is what became of a bundle, in one word.
type Outcome string

// Outcomes of a bundle.
const (
	// OutcomeInForce is of the bundle that the runtime reported last.
	OutcomeInForce Outcome = "InForce"
	// OutcomeWaiting is of the newest bundle while the runtime has not reported it.
	OutcomeWaiting Outcome = "Waiting"
	// OutcomeRefused is of one that the runtime refused and did not apply since.
	OutcomeRefused Outcome = "Refused"
	// OutcomeApplied is of one that was in force before.
	OutcomeApplied Outcome = "Applied"
	// OutcomeReplaced is of one that a newer one replaced before the runtime was heard to have applied it.
	OutcomeReplaced Outcome = "Replaced"
	// OutcomeUnknown is of one that only the registry has.
	OutcomeUnknown Outcome = "Unknown"
)

// Chain is what was read of a runtime's bundles in the registry: the newest and those before it, each named in the
// statement of the one after. The zero value says that nobody asked.
type Chain struct {
	Bundles []bundle.BundleIdentity
	// Ends is why no bundle before those was verified, empty where there is none or enough were read.
	Ends string
	// Asked says that the registry was asked.
	Asked bool
}

// ReadChain follows a runtime's bundles from the one that was published last. read returns the verified identity of a
// bundle by its digest; its error ends the chain.
func ReadChain(kyma *v1beta2.Kyma, read func(digest string) (bundle.BundleIdentity, error)) Chain {
	chain := Chain{Asked: true}
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return chain
	}
	for next := kyma.Status.Runtime.Published.Digest; next != "" && len(chain.Bundles) < maxTimeline; {
		identity, err := read(next)
		if err != nil {
			chain.Ends = text(err.Error())
			return chain
		}
		chain.Bundles, next = append(chain.Bundles, identity), ""
		if p := identity.Previous; p != nil && p.Sequence < identity.Sequence {
			next = p.Digest.String()
		}
	}
	return chain
}

// Timeline returns a runtime's last bundles, the newest first: those that the status remembers, and those of the chain.
// All texts are bounded and printable.
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
		all = append(all, noted(&r.History[i], observed, r.Published.Digest))
	}
	if p := r.Published; !slices.ContainsFunc(all, func(b Bundle) bool { return b.Digest == p.Digest }) {
		all = append(all, Bundle{Epoch: p.Epoch, Sequence: p.Sequence, Digest: line(p.Digest), Published: p.Time.Time, Commit: line(p.Commit), Outcome: outcomeOf(p.Digest, observed, p.Digest)})
	}
	for i := range chain.Bundles {
		all = signed(all, &chain.Bundles[i], observed, r.Published.Digest)
	}
	slices.SortStableFunc(all, func(a, b Bundle) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(b.Sequence, a.Sequence))
	})
	all = all[:min(len(all), maxTimeline)]
	for i := range all {
		if chain.Asked && all[i].Signed == nil {
			all[i].Unverified = cmp.Or(chain.Ends, "no bundle that was verified leads to this one")
		}
	}
	return all
}

// noted is what the status remembers of a bundle.
func noted(b *v1beta2.BundleRecord, observed, newest string) Bundle {
	one := Bundle{
		Epoch: b.Epoch, Sequence: b.Sequence, Digest: line(b.Digest), Published: b.Published.Time, Commit: line(b.Commit), More: b.More,
		Noted: true, State: b.State, Refused: line(b.Refused), Outcome: outcomeOf(b.Digest, observed, newest),
	}
	for _, c := range b.Changes {
		one.Changes = append(one.Changes, v1beta2.VersionChange{Module: line(c.Module), From: line(c.From), To: line(c.To)})
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

func outcomeOf(digest, observed, newest string) Outcome {
	switch digest {
	case observed:
		return OutcomeInForce
	case newest:
		return OutcomeWaiting
	}
	return OutcomeUnknown
}

// signed adds to bundles what one of them proves of itself. What is signed goes before what is only noted.
func signed(all []Bundle, identity *bundle.BundleIdentity, observed, newest string) []Bundle {
	digest := identity.Digest.String()
	at := slices.IndexFunc(all, func(b Bundle) bool { return b.Digest == digest })
	if at < 0 {
		all, at = append(all, Bundle{Digest: digest, Outcome: outcomeOf(digest, observed, newest)}), len(all)
	}
	b := &all[at]
	b.Epoch, b.Sequence, b.Published, b.Signed, b.Commit = identity.Epoch, identity.Sequence, identity.IssuedAt, identity, ""
	if identity.Source != nil {
		b.Commit = line(identity.Source.Commit)
	}
	return all
}

// Why says in one line what a bundle was published for, as far as it is known.
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
		return "no other versions"
	case len(parts) == 0:
		return "not noted"
	case b.More == 1:
		parts = append(parts, "and 1 other module")
	case b.More > 1:
		parts = append(parts, "and "+strconv.Itoa(int(b.More))+" other modules")
	}
	return strings.Join(parts, ", ")
}

// Became says in a few words what became of a bundle.
func (b *Bundle) Became() string {
	switch b.Outcome {
	case OutcomeInForce, OutcomeApplied:
		word := map[Outcome]string{OutcomeInForce: "in force", OutcomeApplied: "was applied"}[b.Outcome]
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
	return "not noted"
}
