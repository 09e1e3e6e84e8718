package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
)

// minReporting is the minimum number of runtimes that must have sent a report before the warning FleetSilent applies.
// In a smaller fleet, a few silent runtimes do not indicate a problem with the whole fleet.
const minReporting = 3

// Assess evaluates all runtimes' health and returns the fleet's summary, modules, rollouts and warnings.
func Assess(in Input) Fleet {
	f := Fleet{
		Time: in.Now, Runtimes: make([]Runtime, 0, len(in.Kymas)+len(in.Healthy)),
		Rollouts: sortedRollouts(in.Rollouts),
	}
	rollouts := NewRollouts(in.Rollouts)
	tally := newTally()
	for i := range in.Kymas {
		f.Runtimes = append(f.Runtimes, Judge(&in.Kymas[i], rollouts, in.Now))
	}
	f.Runtimes = append(f.Runtimes, in.Healthy...)
	for i := range f.Runtimes {
		tally.Add(&f.Runtimes[i])
	}
	slices.SortFunc(f.Runtimes, func(a, b Runtime) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Kyma, b.Kyma))
	})
	f.Summary = tally.Summary()
	f.Summary.OldestReport = oldestReport(f.Runtimes)
	f.Modules = tally.Modules(in.Metas)
	if !in.RootExpires.IsZero() {
		f.RootExpires = &in.RootExpires
	}
	f.Warnings = fleetWarnings(in, f)
	return f
}

func oldestReport(all []Runtime) *time.Time {
	var oldest *time.Time
	for i := range all {
		if at := all[i].silentSince(); at != nil && (oldest == nil || at.Before(*oldest)) {
			oldest = at
		}
	}
	return oldest
}

func (r *Runtime) silentSince() *time.Time {
	if r.Health != Silent {
		return nil
	}
	return r.LastReport
}

// sortedRollouts returns the active rollouts, followed by the finished ones. Both groups are sorted from newest to
// oldest.
func sortedRollouts(all []v1alpha1.Rollout) []Rollout {
	sorted := make([]Rollout, 0, len(all))
	for i := range all {
		r := &all[i]
		status := r.Status
		status.Message, status.Failures = cleanText(status.Message), slices.Clone(status.Failures)
		for n := range status.Failures {
			// Reason is untrusted text from the runtime's report.
			status.Failures[n].Reason = cleanText(status.Failures[n].Reason)
		}
		sorted = append(sorted, Rollout{
			Name: r.Name, Namespace: r.Namespace, Spec: r.Spec, Status: status,
			Active: !rollout.IsFinished(r.Status.State),
		})
	}
	slices.SortStableFunc(sorted, func(a, b Rollout) int {
		if a.Active != b.Active {
			return map[bool]int{true: -1, false: 1}[a.Active]
		}
		return cmp.Or(b.startedAt().Compare(a.startedAt()), strings.Compare(a.Name, b.Name))
	})
	return sorted
}

func (r *Rollout) startedAt() time.Time {
	if r.Status.StartedAt == nil {
		return time.Time{}
	}
	return r.Status.StartedAt.Time
}

// fleetWarnings returns the problems that affect the whole fleet.
func fleetWarnings(in Input, f Fleet) []Cause {
	var all []Cause
	warn := func(situation Situation, message string) {
		advice := strings.ReplaceAll(byName[situation].Advice, "NAMESPACE", cmp.Or(kymaNamespace(in), "NAMESPACE"))
		all = append(all, Cause{Situation: situation, Message: cleanText(message), Advice: advice})
	}
	if in.Held != "" {
		all = append(all, HeldCause(in.Held))
	}
	if ends := RootExpiryWarning(in.RootExpires, in.Now); ends != nil {
		all = append(all, *ends)
	}
	if message := certificatesMessage(in); message != "" {
		warn(CertificatesEnd, message)
	}
	all = append(all, rejectedVersions(in)...)
	all = append(all, PolicyWarnings(in)...)
	all = append(all, LeftOutWarnings(in.LeftOut)...)
	all = append(all, blockedTrains(in.Trains)...)
	silent, reported := f.Summary.Health[Silent], 0
	for i := range f.Runtimes {
		if r := &f.Runtimes[i]; (r.LastReport != nil || r.Reporting) && r.Health != Suspended {
			reported++
		}
	}
	if reported >= minReporting && silent*2 > reported {
		warn(FleetSilent, fmt.Sprintf("%d of the %d runtimes that have ever reported are silent", silent, reported))
	}
	return all
}

// PolicyWarnings returns a warning for each RolloutPolicy that is invalid or applies to no module.
func PolicyWarnings(in Input) []Cause {
	var all []Cause
	for _, p := range in.InvalidPolicies {
		all = append(all, policyWarning(PolicyInvalid, p.Namespace, p.Name,
			fmt.Sprintf("RolloutPolicy %s is invalid, so its rollouts do not start: %s", p.Name, p.Problem)))
	}
	for _, p := range in.UnmatchedPolicies {
		all = append(all, policyWarning(PolicyUnmatched, p.Namespace, p.Name,
			fmt.Sprintf("RolloutPolicy %s applies to no module: no ModuleReleaseMeta in namespace %s has the module %s",
				p.Name, p.Namespace, strings.Join(p.Modules, " or "))))
	}
	return all
}

func policyWarning(situation Situation, namespace, name, message string) Cause {
	advice := strings.NewReplacer("NAMESPACE", shellWord(namespace, "NAMESPACE"), "POLICY",
		shellWord(name, "POLICY")).Replace(byName[situation].Advice)
	return Cause{Situation: situation, Subject: name, Advice: advice, Message: cleanText(message)}
}

// rejectedVersions returns warnings about channels that offer a version although its rollout was stopped or rolled
// back. If the rollout's own channel still offers the version, the result omits other channels that offer it.
func rejectedVersions(in Input) []Cause {
	var all []Cause
	inOwnChannel := map[string]bool{}
	rejections := rollout.ListRejected(in.Metas, in.Rollouts)
	for _, r := range rejections {
		inOwnChannel[r.Rollout.Name] = inOwnChannel[r.Rollout.Name] || r.Channel == r.Rollout.Spec.Channel
	}
	for _, r := range rejections {
		name := r.Rollout.Name
		if inOwnChannel[name] && r.Channel != r.Rollout.Spec.Channel {
			continue
		}
		inOwnChannel[name] = true
		w := Cause{Situation: VersionRejected, Message: cleanText(rollout.RejectionMessage(r)), Subject: name}
		w.Advice = strings.NewReplacer("ROLLOUT", shellWord(name, "ROLLOUT"), "NAMESPACE",
			shellWord(r.Rollout.Namespace, "NAMESPACE")).Replace(byName[VersionRejected].Advice)
		all = append(all, w)
	}
	return all
}

func blockedTrains(policies []v1alpha1.PromotionPolicy) []Cause {
	var all []Cause
	for i := range policies {
		p := &policies[i]
		for _, at := range train.BlockedVersions(p) {
			message := fmt.Sprintf("train %s: module %s %s in channel %s: %s", p.Name, at.Module, at.Version,
				at.Channel,
				cmp.Or(at.Message, string(at.Reason)))
			all = append(all, Cause{
				Situation: TrainBlocked, Message: cleanText(message),
				Advice: strings.NewReplacer("POLICY", shellWord(p.Name, "POLICY"), "NAMESPACE", p.Namespace).
					Replace(byName[TrainBlocked].Advice),
				Subject: strings.Join([]string{p.Name, at.Module, at.Version, at.Channel}, "/"),
			})
		}
	}
	return all
}

// HeldCause returns the warning that publishing is stopped for all runtimes. The parameter why contains the reason.
func HeldCause(why string) Cause {
	return Cause{Situation: CommitHolds, Message: cleanText(why), Advice: byName[CommitHolds].Advice}
}

func kymaNamespace(in Input) string {
	switch {
	case len(in.Kymas) > 0:
		return shellWord(in.Kymas[0].Namespace, "")
	case len(in.Healthy) > 0:
		return shellWord(in.Healthy[0].Namespace, "")
	}
	return ""
}
