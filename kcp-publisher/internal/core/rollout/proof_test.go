package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// checkProof fails the test if a wave counts as proven although the runtimes have not sent reports that prove the
// version.
func (w *world) checkProof(r *fleet.Rollout, step Step, wave int, facts []Runtime) {
	p := &plan{name: r.Name, spec: r.Spec, status: step.Status, input: PlanInput{Now: w.now}}
	p.assignRuntimes(facts)
	count, concerned, shown, unshown, later := 0, 0, 0, 0, 0
	for i, m := range w.machines {
		has := m.known.Versions[keda.Module]
		aside := has == r.Spec.To && m.known.Given[keda.Module].Rollout != r.Name || bundle.IsOlder(r.Spec.To, has)
		if p.members[i].wave > wave && !aside {
			later++
		}
		if p.members[i].wave == wave && aside {
			if has == r.Spec.To &&
				(m.known.Given[keda.Module].Rollout == "" || m.known.Given[keda.Module].Ready || facts[i].IsCurrent &&
					facts[i].State == v1beta2.StateReady) {
				shown++
			} else {
				unshown++
			}
		}
		if p.members[i].wave != wave || aside {
			continue
		}
		concerned++
		w.checkChecks(r, step.Status.Waves[wave], wave, m, has)
		unread := !m.polled && w.now.Sub(w.began) <= r.Spec.OfflineAfter.Duration
		failed := facts[i].IsCurrent && facts[i].State == v1beta2.StateError ||
			p.findFailedCheck(&p.members[i], &facts[i]) != nil
		if given := facts[i].Selection; unread && given != nil && given.Rollout == r.Name && given.Ready &&
			has == r.Spec.To && !failed {
			w.fail("%s: wave %d is proven before the report of %s was read", r.Name, wave, m.id)
		}
		noted := has == r.Spec.To && m.known.Given[keda.Module].Rollout == r.Name && m.wasReadyBefore(r.Spec.To)
		if m.readyBy[r.Name+r.Spec.To] || noted {
			count++
		}
	}
	if concerned+shown+unshown == 0 && later > 0 {
		w.checkEmptyWave(r, step, wave, p)
	}
	if concerned == 0 && unshown > 0 && shown == 0 && later > 0 && !w.shown(r.Spec.To) &&
		!slices.Contains(r.Spec.ApprovedWaves, r.Spec.Waves[wave].Name) {
		w.fail("%s: wave %d is proven, but none of its %d runtimes proves the version", r.Name, wave,
			unshown)
	}
	done := step.Status.Waves[wave]
	if concerned > 0 && count == 0 && (!approvedWithoutChecks(r, wave) || done.Deferred != done.Total) {
		w.fail("%s: wave %d of %d runtimes is proven, but no runtime reported Ready", r.Name, wave, concerned)
	}
	if got := int(step.Status.Waves[wave].Updated); got > count {
		w.fail("%s: wave %d has %d updated runtimes, but %d reported Ready", r.Name, wave, got, count)
	}
}

// checkEmptyWave fails the test if a wave without runtimes counts as proven although it also selects runtimes from
// earlier waves and none of these has proven the version.
func (w *world) checkEmptyWave(r *fleet.Rollout, step Step, wave int, p *plan) {
	spec := r.Spec.Waves[wave]
	if spec.AllowEmpty || approvedWithoutChecks(r, wave) || isProven(r, w.rollouts) {
		return
	}
	for i, m := range w.machines {
		if p.members[i].wave >= wave || spec.Selector != nil && m.labels["canary"] != "yes" {
			continue
		}
		given := m.known.Given[keda.Module]
		if m.known.Versions[keda.Module] == r.Spec.To && (given.Rollout == "" || given.Ready ||
			m.readyBy[r.Name+r.Spec.To] || m.saidState == v1beta2.StateReady) {
			return
		}
	}
	w.fail("%s: wave %d is proven without a runtime: %+v", r.Name, wave, step.Status.Waves)
}

// wasReadyBefore reports whether a version was ready after another rollout installed it. The publisher may have crashed
// after it pushed the version and before it updated the status. The status then names the next rollout of this version
// instead of the one that installed it.
func (m *simulatedRuntime) wasReadyBefore(version string) bool {
	return m.known.Given[keda.Module].Ready && m.readyBy[m.givenBy+version]
}

// checkDeferred fails the test if a wave is proven without an approval although more runtimes than maxDeferred are
// deferred.
func (w *world) checkDeferred(r *fleet.Rollout, status fleet.WaveStatus, wave int) {
	bound := int(status.Total) / 4
	if limit := r.Spec.Waves[wave].MaxDeferred; limit != nil {
		bound = scaledDown(limit.String(), int(status.Total))
	}
	approved := slices.Contains(r.Spec.ApprovedDeferredWaves, status.Name)
	if approved && int(status.Deferred) > bound {
		w.continued++
	}
	all := status.Deferred == status.Total && approvedWithoutChecks(r, wave)
	if int(status.Deferred) > bound && !approved && !all {
		w.fail("%s: wave %d is proven although %d of its %d runtimes are deferred, at most %d", r.Name, wave,
			status.Deferred, status.Total, bound)
	}
}

// checkChecks fails the test if a wave counts as proven although the check of a ready runtime has not passed. Such a
// wave can count as proven only if minReady is set and the time for the checks has ended.
func (w *world) checkChecks(r *fleet.Rollout, status fleet.WaveStatus, wave int, m *simulatedRuntime, has string) {
	mine := has == r.Spec.To && m.known.Given[keda.Module].Rollout == r.Name && m.known.Given[keda.Module].Ready
	broken := m.reported == m.knownDigest && m.saidState == v1beta2.StateError // the runtime has failed
	if len(r.Spec.Waves[wave].Checks) == 0 || !mine || broken || approvedWithoutChecks(r, wave) {
		return
	}
	reportedAt := m.lastReport
	if !m.polled {
		reportedAt = m.noted
	}
	switch result := known(m); {
	case result == v1beta2.CheckFailed && r.Spec.Waves[wave].MaxFailures == nil && len(w.machines) < 10:
		w.fail("%s: wave %d is proven although the check of %s failed", r.Name, wave, m.id)
	case result == v1beta2.CheckPassed, result == v1beta2.CheckFailed:
	case w.mayProveWithout(m, r.Spec.Waves[wave], status):
		w.without++
	case w.now.Sub(reportedAt) <= r.Spec.OfflineAfter.Duration:
		w.fail("%s: wave %d is proven although the check of %s is %q", r.Name, wave, m.id, result)
	}
}

func (w *world) mayProveWithout(m *simulatedRuntime, wave fleet.Wave, status fleet.WaveStatus) bool {
	if wave.MinReady == nil || !isOverdue(m, wave, w.now) {
		return false
	}
	need, err := intstr.GetScaledValueFromIntOrPercent(wave.MinReady, int(status.Total-status.Deferred), true)
	return err == nil && int(status.Updated) >= max(need, 1)
}

// isOverdue reports whether a runtime's agent has run the checks for the configured time.
func isOverdue(m *simulatedRuntime, wave fleet.Wave, now time.Time) bool {
	given := m.known.Given[keda.Module]
	return now.After(given.Began().Add(checkFor(wave)))
}

func known(m *simulatedRuntime) v1beta2.CheckResult {
	if checks := m.known.Given[keda.Module].Checks; len(checks) > 0 {
		return checks[0].Result
	}
	return ""
}

func approvedWithoutChecks(r *fleet.Rollout, wave int) bool {
	return !r.Spec.Waves[wave].Approval && slices.Contains(r.Spec.ApprovedWaves, r.Spec.Waves[wave].Name)
}
