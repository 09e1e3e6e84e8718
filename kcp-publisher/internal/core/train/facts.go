package train

import (
	"fmt"
	"slices"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Fleet maps each track (a module in a channel) to the number of its runtimes by state.
type Fleet map[rollout.Track]Counts

// Counts contains the numbers of runtimes that follow a track (a module in a channel), by state.
type Counts struct {
	// Version is the version that the channel offers.
	Version string
	// Ready counts the runtimes that are not silent and report the module as ready in Version. Failed counts the
	// runtimes that report an error for the module in Version.
	Ready, Failed int32
	// Behind counts runtimes whose newest bundle has an older version of the module or does not contain the module.
	Behind int32
	// FailedChecks counts runtimes that reported a failed check of Version.
	FailedChecks int32
}

// Count counts the runtimes of a fleet by track and state. isReporting reports whether a Kyma's runtime is not silent.
func Count(members []plan.Member, isReporting func(*v1beta2.Kyma) bool) Fleet {
	all := Fleet{}
	for i := range members {
		kyma := members[i].Kyma
		for _, follow := range members[i].FollowedChannels {
			track := rollout.Track{Module: follow.Module, Channel: follow.Channel}
			counts := all[track]
			counts.Version = follow.Version
			counts.countKyma(kyma, follow.Module, isReporting(kyma))
			all[track] = counts
		}
	}
	return all
}

func (c *Counts) countKyma(kyma *v1beta2.Kyma, module string, isReporting bool) {
	published, isCurrent := "", false
	if r := kyma.Status.Runtime; r != nil && r.Published != nil {
		published = r.Published.Versions[module]
		if published == c.Version && slices.ContainsFunc(r.Published.Given[module].Checks, isFailed) {
			c.FailedChecks++
		}
		isCurrent = r.HasAppliedNewest()
	}
	if published == "" || bundle.IsOlder(published, c.Version) {
		c.Behind++
	}
	for i := range kyma.Status.Modules {
		m := &kyma.Status.Modules[i]
		if m.Name != module || published != c.Version {
			continue
		}
		switch {
		// If the report is about the newest bundle, an error in a different version means that the runtime could not
		// apply c.Version.
		case m.State == v1beta2.StateError && (m.Version == c.Version || isCurrent && !m.Maintenance):
			c.Failed++
		case m.Version == c.Version && m.State == v1beta2.StateReady && isReporting:
			c.Ready++
		}
	}
}

func isFailed(check v1beta2.CheckOutcome) bool { return check.Result == v1beta2.CheckFailed }

// failedChecksMessage returns a message about the version's checks that failed in the channel, or "". It includes
// failures in the status of the version's Rollout, because a runtime may have another bundle now.
func (c *chain) failedChecksMessage(entry *fleet.TrainVersion, counts Counts) string {
	newest := rollout.NewestRollout(c.rollouts[rollout.Track{Module: c.module, Channel: entry.Channel}])
	if newest != nil && newest.Spec.To == entry.Version {
		for _, wave := range newest.Status.Waves {
			for _, check := range wave.Checks {
				if check.Failed > 0 {
					return fmt.Sprintf("rollout %s: check %s failed in %d runtimes in wave %s", newest.Name, check.Name,
						check.Failed, wave.Name)
				}
			}
		}
	}
	if counts.FailedChecks > 0 {
		return fmt.Sprintf("checks failed in %d runtimes in channel %s", counts.FailedChecks, entry.Channel)
	}
	return ""
}

// channelCounts returns the numbers of runtimes that follow the channel in entry. known is false if some
// runtimes are not known yet, or if the numbers are for another version. For a channel without runtimes, all numbers
// are zero.
func (c *chain) channelCounts(entry *fleet.TrainVersion) (counts Counts, known bool) {
	if c.Fleet == nil {
		return Counts{}, false
	}
	counts, followed := c.Fleet[rollout.Track{Module: c.module, Channel: entry.Channel}]
	if followed && counts.Version != entry.Version {
		return Counts{}, false
	}
	return counts, true
}

// failedCount returns the number of failed runtimes. Reports and the version's Rollout can contain different numbers,
// so it returns the larger one.
func (c *chain) failedCount(entry *fleet.TrainVersion, counts Counts) int32 {
	newest := rollout.NewestRollout(c.rollouts[rollout.Track{Module: c.module, Channel: entry.Channel}])
	if newest != nil && newest.Spec.To == entry.Version {
		return max(counts.Failed, newest.Status.Failed)
	}
	return counts.Failed
}
