package plan

import (
	"maps"
	"slices"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// View contains the catalog and the rollout decisions for new bundles. It is immutable.
type View struct {
	Catalog *catalog.Snapshot
	Gates   rollout.Gates
	// Policies contains the RolloutPolicies. The removal of a module with a policy waits for its Gate.
	Policies []fleet.RolloutPolicy
	// AwaitedRuntimes contains the IDs of the runtimes whose reports a rollout is waiting for.
	AwaitedRuntimes map[string]bool
	// State is a hash of the control plane objects that the view was computed from. It is empty if the same process
	// plans the rollouts and publishes bundles.
	State string
}

// HasSameResult reports whether two views lead to the same result for every Kyma.
func (v *View) HasSameResult(other *View) bool {
	if v == nil || other == nil {
		return v == other
	}
	return v.Catalog == other.Catalog && v.State == other.State && maps.Equal(v.AwaitedRuntimes, other.AwaitedRuntimes) &&
		v.Gates.HasSameDecisions(other.Gates) && hasSamePolicies(v.Policies, other.Policies)
}

// IsAwaited reports whether a rollout is waiting for a report from this runtime. It returns false for a nil view.
func (v *View) IsAwaited(runtime string) bool { return v != nil && v.AwaitedRuntimes[runtime] }

// decisions returns the rollout decisions for all modules that the runtime follows, removes or can choose. For a
// deleted Kyma, it does not allow upgrades, because rollouts do not count its runtime.
func (v *View) decisions(
	runtime string, request resolve.Request, known *v1beta2.RuntimeStatus, isDeleted bool,
) map[rollout.Track]rollout.Decision {
	if len(v.Gates) == 0 && !isDeleted {
		return nil
	}
	versions := moduleVersions(known)
	decisions := map[rollout.Track]rollout.Decision{}
	ask := func(track rollout.Track, offered string) {
		d := rollout.Decision{Version: offered}
		if gate := v.Gates[track]; gate != nil {
			d = gate.Decide(runtime, versions[track.Module])
		}
		if isDeleted {
			d = withoutUpgrade(d, versions[track.Module])
		}
		if d != (rollout.Decision{Version: offered}) {
			decisions[track] = d
		}
	}
	for _, follow := range resolve.FollowedChannels(request, v.Catalog) {
		ask(rollout.Track{Module: follow.Module, Channel: follow.Channel}, follow.Version)
	}
	for _, leaving := range request.RemovedModules {
		ask(rollout.Track{Module: leaving.Name, Channel: leaving.Channel}, "")
	}
	if request.Settings.Autonomy == bundle.AutonomyCatalog {
		for track := range v.Gates {
			if track.IsRemoval {
				continue
			}
			if offered, err := v.Catalog.OfferedVersion(track.Module, track.Channel, request.Labels); err == nil {
				ask(track, offered)
			}
		}
	}
	return decisions
}

// withoutUpgrade returns a decision to keep the installed version if d allows a newer one. Otherwise, it returns d.
func withoutUpgrade(d rollout.Decision, installed string) rollout.Decision {
	if !bundle.IsOlder(installed, d.Version) {
		return d
	}
	return rollout.Decision{
		Version: installed,
		HeldReason: "the Kyma is deleted, and the removal of its modules waits for an operator's approval: " +
			"see `kcp-publisher removals`",
	}
}

// catalogVersions returns the version in the runtime's catalog for each channel whose new version a rollout delays. It
// returns nil if no version is delayed.
func (v *View) catalogVersions(
	runtime string, request resolve.Request, known *v1beta2.RuntimeStatus,
) map[rollout.Track]string {
	if request.OmitsCatalog {
		return nil
	}
	versions := moduleVersions(known)
	var shown map[rollout.Track]string
	for track, gate := range v.Gates {
		if track.IsRemoval {
			continue
		}
		offered := v.Catalog.ChannelVersion(track.Module, track.Channel)
		if version := gate.CatalogVersion(runtime, versions[track.Module], offered); offered != "" && version != offered {
			if shown == nil {
				shown = map[rollout.Track]string{}
			}
			shown[track] = version
		}
	}
	return shown
}

func (v *View) rolloutChecks(decisions map[rollout.Track]rollout.Decision) map[rollout.Track]rollout.WaveChecks {
	var all map[rollout.Track]rollout.WaveChecks
	for track, d := range decisions {
		checks, ok := v.Gates.Checks(track, d)
		if !ok {
			continue
		}
		if all == nil {
			all = map[rollout.Track]rollout.WaveChecks{}
		}
		all[track] = checks
	}
	return all
}

// Request is like Rules.Request, but includes the rollout decisions for the Kyma's runtime. The request for a deleted
// Kyma also contains decisions. These decisions apply while the removal of its modules waits for an operator's
// approval.
func (v *View) Request(r Rules, kyma *v1beta2.Kyma, report *bundle.AcceptedReport) (resolve.Request, error) {
	request, err := r.Request(kyma, report)
	asked, runtime, known := request, RuntimeID(kyma), kyma.Status.Runtime
	asked.IsDeleting = false
	request.Gates = v.decisions(runtime, asked, known, request.IsDeleting)
	request.CatalogVersions = v.catalogVersions(runtime, asked, known)
	request.Checks = v.rolloutChecks(request.Gates)
	request.RemovalGates = v.removalRules().decisions(kyma)
	return request, err
}

// SelectedVersions maps each module of a published bundle to the rollout that selected the module's version. If a
// module could not be resolved and its version did not change, the map contains the entry from the Kyma's status. The
// map also contains the modules that rollouts removed.
func (v *View) SelectedVersions(
	runtime string, published PublishedBundle, kyma *v1beta2.Kyma,
) map[string]v1beta2.GivenVersion {
	var before *v1beta2.PublishedBundle
	if known := kyma.Status.Runtime; known != nil {
		before = known.Published
	}
	given := v.Gates.SelectedVersions(runtime, published.State.Manifests, before, published.Predicate.IssuedAt)
	if before == nil {
		return given
	}
	resolved := resolve.ModuleVersions(published.State)
	for module, known := range before.Given {
		if _, there := resolved[module]; there || published.Versions[module] != before.Versions[module] {
			continue
		}
		if given == nil {
			given = map[string]v1beta2.GivenVersion{}
		}
		given[module] = known
	}
	return v.removalRules().addTo(given, published, kyma)
}

// EndedWaves returns the modules in a published bundle whose rollout has ended the runtime's wave. given is the result
// of SelectedVersions.
func (v *View) EndedWaves(
	runtime string, published PublishedBundle, given map[string]v1beta2.GivenVersion,
) map[string]bool {
	var ended map[string]bool
	for _, m := range published.State.Manifests {
		known, selected := given[m.Module]
		track := rollout.Track{Module: m.Module, Channel: m.Channel}
		if selected && v.Gates.HasWaveEnded(track, runtime, known, m.Version) {
			if ended == nil {
				ended = map[string]bool{}
			}
			ended[m.Module] = true
		}
	}
	return ended
}

// DifferenceFilter returns a function that reports whether the rollout decisions for a Member differ between two views.
// Both views must have the same catalog.
func (v *View) DifferenceFilter(other *View) func(Member) bool {
	moved, others := v.Gates.ChangedTracks(other.Gates), v.changedCatalogTracks(other)
	if len(moved) == 0 && hasSamePolicies(v.Policies, other.Policies) {
		return func(Member) bool { return false }
	}
	return func(m Member) bool {
		if v.differsInRemovals(other, m) {
			return true
		}
		versions, unfollowed := moduleVersions(m.Kyma.Status.Runtime), len(others)
		for _, follow := range m.FollowedChannels {
			track := rollout.Track{Module: follow.Module, Channel: follow.Channel}
			if !moved[track] {
				continue
			}
			if !v.Gates[track].Equal(other.Gates[track], m.Runtime, versions[follow.Module]) {
				return true
			}
			if others[track] {
				unfollowed--
			}
		}
		return unfollowed > 0
	}
}

// IsCurrent reports whether a Kyma's request from this view leads to the same bundle with the current view. It returns
// false if current is nil, because then the catalog is changing.
func (v *View) IsCurrent(current *View, kyma *v1beta2.Kyma, request resolve.Request) bool {
	if v == current {
		return true
	}
	if current == nil || current.Catalog.Revision != v.Catalog.Revision {
		return false
	}
	follows := resolve.FollowedChannels(request, v.Catalog)
	return !current.DifferenceFilter(v)(Member{Kyma: kyma, Runtime: RuntimeID(kyma), FollowedChannels: follows})
}

// changedCatalogTracks returns the tracks (modules in channels) whose published catalog version differs between two
// views. Both views must have the same catalog.
func (v *View) changedCatalogTracks(other *View) map[rollout.Track]bool {
	tracks := map[rollout.Track]bool{}
	for _, gates := range []rollout.Gates{v.Gates, other.Gates} {
		for track := range gates {
			if track.IsRemoval {
				continue
			}
			offered := v.Catalog.ChannelVersion(track.Module, track.Channel)
			if v.Gates[track].CatalogVersion("", "", offered) != other.Gates[track].CatalogVersion("", "", offered) {
				tracks[track] = true
			}
		}
	}
	return tracks
}

func moduleVersions(known *v1beta2.RuntimeStatus) map[string]string {
	if known == nil || known.Published == nil {
		return nil
	}
	return known.Published.Versions
}

func hasSamePolicies(a, b []fleet.RolloutPolicy) bool {
	return slices.EqualFunc(a, b, func(a, b fleet.RolloutPolicy) bool {
		return a.UID == b.UID && a.Generation == b.Generation && a.DeletionTimestamp.Equal(b.DeletionTimestamp)
	})
}

func (v *View) removalRules() removalRules { return removalRules{v.Gates, v.Policies} }

// differsInRemovals reports whether the decisions about removals in a Member's runtime differ between two views.
func (v *View) differsInRemovals(other *View, m Member) bool {
	for _, r := range trackedRemovals(m.Kyma) {
		a, held := r.decision(v.removalRules(), m.Runtime)
		b, heldBefore := r.decision(other.removalRules(), m.Runtime)
		if held != heldBefore || a.ReplacedVersion != b.ReplacedVersion {
			return true
		}
	}
	return false
}

// TemplateNames returns the names of the ModuleTemplates for the bundle's modules.
func (p *PublishedBundle) TemplateNames() []string {
	names := make([]string, 0, len(p.State.Manifests))
	for _, m := range p.State.Manifests {
		names = append(names, m.Template)
	}
	return names
}
