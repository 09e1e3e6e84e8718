// Package prune finds the manifests in a registry that runtimes no longer need, and removes them. Read returns an
// Inventory of the registry. Decide is pure and returns the removals. Remove executes them.
//
// The package never removes a manifest that it could not read or that has an unknown format. It removes manifests from
// shared repositories only if it knows all runtimes' bundles. The registry's garbage collection frees the blobs later.
package prune

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Manifest is a manifest in a repository.
type Manifest struct {
	// Repository is the name of the repository below the prefix.
	Repository string
	// Tags are the manifest's tags. A superseded bundle has no tags.
	Tags       []string
	Descriptor ocispec.Descriptor
	// Blobs are the blobs that the manifest references.
	Blobs []ocispec.Descriptor
}

// Key identifies the manifest in the list of unused manifests.
func (m Manifest) Key() string { return m.Repository + "@" + m.Descriptor.Digest.String() }

// Bundle is a runtime's bundle, signed by this fleet.
type Bundle struct {
	Manifest
	IssuedAt, ExpiresAt time.Time
	State, Catalog      digest.Digest
}

// Runtime contains the registry's objects for one runtime.
type Runtime struct {
	ID string
	// Kyma is true if the control plane has a Kyma for the runtime.
	Kyma bool
	// Gone is true if an operator declared that the runtime is gone.
	Gone bool
	// Remembered are the digests of the published and applied bundles in the Kyma's status.
	Remembered []digest.Digest
	// Bundles is sorted from newest to oldest.
	Bundles []Bundle
	// Truncated is true if not all recently superseded bundles were read.
	Truncated bool
	Reports   []Manifest
	// Named are the digests of manifests with tags that this package does not know. These manifests are never removed.
	Named []digest.Digest
}

// List is a signed list of the images in an export.
type List struct {
	Manifest
	ExpiresAt time.Time
}

// Inventory contains a registry's objects below a prefix.
type Inventory struct {
	Runtimes []Runtime
	// Contents maps a desired state's digest to the digests of the content that it needs.
	Contents map[digest.Digest][]digest.Digest
	// Shared are the manifests in the repositories that all runtimes share: documents and content.
	Shared []Manifest
	Lists  []List
	// Sole is true if no other control plane publishes below the prefix, so runtimes without a Kyma no longer exist.
	Sole bool
	// Unknown contains the reasons why the content that some runtimes need is unknown. Shared manifests are removed
	// only if Unknown is empty.
	Unknown []string
}

// Rules limit the removals.
type Rules struct {
	Now time.Time
	// MinAge is the time that a manifest must be unused before its removal.
	MinAge time.Duration
	// Limit is the maximum number of removals in one run.
	Limit int
}

// Removal is a manifest to remove.
type Removal struct {
	Manifest
	Reason string
}

// WaitingManifest is an unused manifest that is too recent to be removed.
type WaitingManifest struct {
	Manifest
	Since  time.Time
	Reason string
}

// Plan contains one run's removals.
type Plan struct {
	Remove  []Removal
	Waiting []WaitingManifest
	// Over is the number of removals that exceed Rules.Limit and wait for the next run.
	Over int
	// Bytes is the size of all removed manifests and their blobs.
	Bytes int64
	// Noted contains the time when a run first found each unused manifest, by Manifest.Key. The next run passes Noted
	// to Decide.
	Noted map[string]time.Time
}

// Decide computes the plan. A bundle's age starts when its successor was issued. Any other manifest's age starts when a
// run first found it unused. unusedSince contains this time, by Manifest.Key, for the manifests that
// earlier runs found.
func Decide(inventory Inventory, unusedSince map[string]time.Time, rules Rules) Plan {
	d := decision{
		inventory: inventory, noted: unusedSince, rules: rules, plan: Plan{Noted: map[string]time.Time{}},
		usedDigests: map[digest.Digest]bool{}, counted: map[digest.Digest]bool{},
	}
	for _, runtime := range inventory.Runtimes {
		d.decideRuntime(runtime)
	}
	for _, list := range inventory.Lists {
		if rules.Now.After(list.ExpiresAt.Add(rules.MinAge)) {
			d.remove(list.Manifest, "image list of an export, expired "+formatDay(list.ExpiresAt))
		} else {
			d.keep(list.Manifest)
		}
	}
	needed := d.neededManifests()
	for _, m := range inventory.Shared {
		d.decideShared(m, needed[m.Key()])
	}
	var later []Removal
	d.plan.Remove, later = selectFairly(d.plan.Remove, rules.Limit)
	for _, r := range later {
		d.keep(r.Manifest)
	}
	d.plan.Over = len(later)
	d.plan.Bytes = d.freedBytes()
	return d.plan
}

// selectFairly takes one removal from each runtime and shared repository in turn, so that a runtime with many removals
// does not delay the others.
func selectFairly(all []Removal, limit int) (now, later []Removal) {
	turns, count := make([]int, len(all)), map[string]int{}
	for i, r := range all {
		of := r.Repository
		if _, id, ok := strings.Cut(of, "/"); ok {
			of = id // count a runtime's bundles and reports together
		}
		turns[i] = count[of]
		count[of]++
	}
	if len(all) <= limit {
		return all, nil
	}
	last := slices.Sorted(slices.Values(turns))[limit] // all removals before this turn fit into the limit
	left := limit
	for _, turn := range turns {
		if turn < last {
			left--
		}
	}
	for i, r := range all {
		switch {
		case turns[i] < last:
			now = append(now, r)
		case turns[i] == last && left > 0:
			now = append(now, r)
			left--
		default:
			later = append(later, r)
		}
	}
	return now, later
}

type decision struct {
	inventory Inventory
	noted     map[string]time.Time
	rules     Rules
	plan      Plan
	// usedDigests are the digests of content that the remaining bundles need.
	usedDigests map[digest.Digest]bool
	// counted are the digests of the blobs in reports. Reports stay, so garbage collection does not free these blobs.
	counted map[digest.Digest]bool
}

// inUse divides a runtime's bundles into bundles that the runtime can still apply or roll back to (used), and all
// others (superseded).
func inUse(r Runtime, rules Rules) (used, superseded []Bundle) {
	for i, b := range r.Bundles {
		switch {
		case i < 2, slices.Contains(r.Remembered, b.Descriptor.Digest), slices.Contains(r.Named, b.Descriptor.Digest),
			rules.Now.Sub(r.Bundles[i-1].IssuedAt) < rules.MinAge:
			used = append(used, b)
		default:
			superseded = append(superseded, b)
		}
	}
	return used, superseded
}

func (d *decision) decideRuntime(r Runtime) {
	if d.removeGone(r) {
		return
	}
	used, superseded := inUse(r, d.rules)
	next := map[digest.Digest]time.Time{} // when each bundle's successor was issued
	for i, b := range r.Bundles[min(1, len(r.Bundles)):] {
		next[b.Descriptor.Digest] = r.Bundles[i].IssuedAt
	}
	for _, b := range used {
		d.keep(b.Manifest)
		for _, content := range d.inventory.Contents[b.State] {
			d.usedDigests[content] = true
		}
	}
	for _, report := range r.Reports {
		// The runtime chooses its report's blobs. They therefore do not protect manifests in other repositories.
		for _, b := range report.Blobs {
			d.counted[b.Digest] = true
		}
	}
	for _, b := range slices.Backward(superseded) { // oldest first, so the remaining chain stays complete
		d.remove(b.Manifest, "bundle, superseded "+formatDay(next[b.Descriptor.Digest]))
	}
}

// removeGone removes all of a deleted runtime's manifests. It returns false if the runtime's data must stay.
func (d *decision) removeGone(r Runtime) bool {
	reason := "runtime was declared gone"
	switch {
	case r.Kyma || len(r.Named) > 0:
		return false
	case r.Gone:
	case !d.inventory.Sole || len(r.Bundles) == 0 && len(r.Reports) == 0:
		return false
	case len(r.Bundles) > 0 && !d.rules.Now.After(r.Bundles[0].ExpiresAt):
		return false // the last bundle announces the deletion to a runtime that was offline
	default:
		first := slices.Concat(r.Reports, bundles(r))[0]
		if !d.isOld(first, "runtime has no Kyma") {
			return false
		}
		reason = "runtime has no Kyma, and its last bundle expired"
	}
	for _, m := range slices.Backward(bundles(r)) {
		d.remove(m, reason)
	}
	for _, m := range r.Reports {
		d.remove(m, reason)
	}
	return true
}

func bundles(r Runtime) []Manifest {
	all := make([]Manifest, len(r.Bundles))
	for i, b := range r.Bundles {
		all[i] = b.Manifest
	}
	return all
}

// neededManifests returns the shared manifests to keep, by Manifest.Key. It keeps all manifests that contain only
// documents in use. It keeps additional manifests until each document in use is in at least one kept manifest.
func (d *decision) neededManifests() map[string]bool {
	type blob struct {
		repository string
		digest     digest.Digest
	}
	needed, held := map[string]bool{}, map[blob]bool{}
	for _, partly := range []bool{false, true} {
		for _, m := range d.inventory.Shared {
			used, missing := 0, false
			for _, b := range m.Blobs {
				if d.usedDigests[b.Digest] {
					used++
					missing = missing || !held[blob{m.Repository, b.Digest}]
				}
			}
			if used == len(m.Blobs) && !partly || partly && missing {
				needed[m.Key()] = true
				for _, b := range m.Blobs {
					held[blob{m.Repository, b.Digest}] = true
				}
			}
		}
	}
	return needed
}

func (d *decision) decideShared(m Manifest, needed bool) {
	if needed {
		d.keep(m)
		return
	}
	if len(d.inventory.Unknown) > 0 {
		if since, known := d.noted[m.Key()]; known {
			d.plan.Noted[m.Key()] = since
		}
		d.keep(m)
		return
	}
	const reason = "no runtime's bundle needs it"
	if d.isOld(m, reason) {
		d.remove(m, reason+" since "+formatDay(d.noted[m.Key()]))
		return
	}
	d.keep(m)
}

// isOld reports whether the manifest has been unused long enough to be removed. It also records the time when the
// manifest was first found unused.
func (d *decision) isOld(m Manifest, reason string) bool {
	since, known := d.noted[m.Key()]
	if !known || since.After(d.rules.Now) {
		since = d.rules.Now
	}
	d.plan.Noted[m.Key()] = since
	if d.rules.Now.Sub(since) >= d.rules.MinAge {
		return true
	}
	d.plan.Waiting = append(d.plan.Waiting, WaitingManifest{m, since, reason})
	return false
}

func (d *decision) remove(m Manifest, reason string) {
	d.plan.Remove = append(d.plan.Remove, Removal{m, reason})
}

func (d *decision) keep(m Manifest) {
	for _, b := range m.Blobs {
		d.usedDigests[b.Digest] = true
	}
}

// freedBytes returns the number of bytes that the plan's removals free.
func (d *decision) freedBytes() (bytes int64) {
	counted := maps.Clone(d.usedDigests)
	maps.Copy(counted, d.counted)
	for _, r := range d.plan.Remove {
		bytes += r.Descriptor.Size
		for _, b := range r.Blobs {
			if !counted[b.Digest] {
				bytes += b.Size
				counted[b.Digest] = true
			}
		}
	}
	return bytes
}

func formatDay(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// WithoutKyma returns the IDs of the runtimes that have no Kyma and whose manifests the plan does not remove, sorted.
func WithoutKyma(inventory Inventory, plan Plan) (ids []string) {
	going := map[string]bool{}
	for _, r := range plan.Remove {
		going[r.Repository] = true
	}
	for _, r := range inventory.Runtimes {
		if m := slices.Concat(bundles(r), r.Reports); !r.Kyma && len(m) > 0 && !going[m[0].Repository] {
			ids = append(ids, r.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// String summarizes a plan in one line.
func (p Plan) String() string {
	var parts []string
	by := map[string]int{}
	for _, r := range p.Remove {
		area, _, _ := strings.Cut(r.Repository, "/")
		by[area]++
	}
	for _, area := range slices.SortedFunc(maps.Keys(by), cmp.Compare) {
		parts = append(parts, fmt.Sprintf("%d in %s", by[area], area))
	}
	return fmt.Sprintf(
		"%d manifests to remove (%s), %d bytes with the content that only they use; %d unused manifests are too "+
			"young; %d more exceed the limit of one run",
		len(p.Remove), strings.Join(parts, ", "), p.Bytes, len(p.Waiting), p.Over)
}
