package fleet

import (
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// findHeld finds a module with a newer version that a rollout has not installed in this runtime yet.
func findHeld(k *kymaState) *finding {
	for i := range k.status {
		m := &k.status[i]
		hold, is := k.versionHolds[m.Name]
		if !is {
			continue
		}
		f := &finding{situation: RolloutHolds, module: m.Name, rollout: hold.Rollout.Name,
			message: heldMessage(m, hold.HoldReason)}
		switch hold.Rollout.Status.State {
		case v1alpha1.RolloutStopped:
			f.situation = RolloutStopped
		case v1alpha1.RolloutPaused, v1alpha1.RolloutWaiting:
			f.situation, f.message = RolloutPaused, f.message+"; "+hold.Rollout.Status.Message
			addApproval(f, m, hold)
		case v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack:
			f.situation = RolloutWithdrawn
			if hold.HasSelected {
				f.situation = RolloutTookBack
			}
			if hold.Rollout.Spec.Undo {
				f.message += "; it was undone on request"
				f.advice = "no action needed: an operator undid the rollout; promote another version when it is ready"
			}
		}
		return f
	}
	return nil
}

// addApproval sets the advice in f to the command that approves a wave, if a wave of the rollout waits for approval.
func addApproval(f *finding, m *v1beta2.ModuleStatus, hold plan.VersionHold) {
	status := hold.Rollout.Status
	at := slices.IndexFunc(status.Waves, func(w v1alpha1.WaveStatus) bool { return w.State == v1alpha1.WaveWaiting })
	if status.State != v1alpha1.RolloutWaiting || at < 0 {
		return
	}
	f.wave = status.Waves[at].Name
	f.advice = "see its progress: kcp-publisher rollout show ROLLOUT; then approve it: kcp-publisher rollout approve " +
		"ROLLOUT WAVE"
	if why, own := strings.CutSuffix(hold.HoldReason, ": wave "+f.wave); own {
		f.message = heldMessage(m, why+": "+status.Message)
	}
}

func heldMessage(m *v1beta2.ModuleStatus, why string) string {
	return "module " + m.Name + " is " + string(m.State) + " in version " + m.Version + ": " + why
}
