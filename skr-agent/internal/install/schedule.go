package install

import (
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// deleteRetryInterval is the interval between two attempts to delete a pruned object.
const deleteRetryInterval = 5 * time.Second

// dataInterval is the interval between checks for objects that an upgrade keeps because they contain data.
const dataInterval = time.Minute

// nextStep returns the next step for a Manifest. The agent compares all objects after a change to the Manifest, after
// its own start, and at the resync interval. It also does so while objects wait for deletion, or if the applied version
// in the Manifest's record is wrong.
func nextStep(m *v1beta2.Manifest, known memo, changed object.Keys, now time.Time, resync time.Duration) step {
	switch {
	case !planning.Installed(m), known.checkedGeneration != m.Generation,
		known.images != m.Annotations[v1beta2.AnnotationImages],
		known.values != m.Annotations[v1beta2.AnnotationValues],
		known.inherited != record.ReadUnverified(m).Inherited, now.Sub(known.checkedAt) >= resync,
		planning.HasWrongRecord(m) && !known.recordFailed:
		return stepApply
	case known.heldReason != "" && now.Sub(known.checkedAt) >= known.heldFor,
		known.handingOver != "" && now.Sub(known.checkedAt) >= known.handOverAgain:
		return stepApply
	case changed.Overlaps(known.dropped):
		// A changed object that this module does not need anymore may now belong to another module.
		return stepApply
	case len(changed) > 0:
		return stepCorrect
	}
	return stepCheck
}

// pacer decides when a module that is not ready is reconciled again.
type pacer struct {
	now                        func() time.Time
	lookInterval, readyTimeout time.Duration
}

// inProgress returns an outcome with state Processing. If the module has been processing for longer than the
// ready timeout, the state is Error.
func (pc *pacer) inProgress(m *v1beta2.Manifest, known *memo, out outcome.Outcome, forWhat string) outcome.Outcome {
	out.State = v1beta2.StateProcessing
	out.Ready = outcome.Finding{Reason: v1beta2.ReasonInstalling, Message: forWhat}
	out.Again = known.nextCheck(m.Generation, pc.now(), pc.lookInterval)
	return pc.applyReadyTimeout(known, out)
}

// notReady adds the delay until the next check to the outcome for a module that is not ready. A module with a warning
// is not processing, so it does not approach the ready timeout.
func (pc *pacer) notReady(
	m *v1beta2.Manifest, known *memo, out outcome.Outcome, heldBack time.Duration,
) outcome.Outcome {
	out.Again = shortestDelay(out.Again, known.nextCheck(m.Generation, pc.now(), pc.lookInterval), heldBack)
	if out.State == v1beta2.StateWarning {
		known.pendingSince = time.Time{}
	}
	return pc.applyReadyTimeout(known, out)
}

// applyReadyTimeout changes the state from Processing to Error if the module has been processing for longer than the
// ready timeout.
func (pc *pacer) applyReadyTimeout(known *memo, out outcome.Outcome) outcome.Outcome {
	if out.State == v1beta2.StateProcessing && pc.now().Sub(known.pendingSince) > pc.readyTimeout {
		out.State = v1beta2.StateError
		if out.Ready.Reason != v1beta2.ReasonImagePull {
			out.Ready.Reason = v1beta2.ReasonTimeout
		}
		out.Ready = outcome.Finding{
			Reason: out.Ready.Reason, Message: fmt.Sprintf("not ready after %s: %s", pc.readyTimeout, out.Ready.Message),
		}
	}
	return out
}

// errorOutcome returns an outcome in state Error. The next check is later than usual, because the error usually
// requires a change to the module or the cluster.
func (pc *pacer) errorOutcome(m *v1beta2.Manifest, known *memo, out outcome.Outcome) outcome.Outcome {
	cause := out.Resources
	if out.Installation != nil {
		cause = out.Installation
	}
	out.State = v1beta2.StateError
	out.Ready = outcome.Finding{Reason: cause.Reason, Message: cause.Message}
	out.Again = known.nextCheck(m.Generation, pc.now(), 4*pc.lookInterval)
	return out
}

// inRemoval returns the outcome for a removal that waits for objects.
func (pc *pacer) inRemoval(m *v1beta2.Manifest, known *memo, out outcome.Outcome, stuck []string) outcome.Outcome {
	out.State = v1beta2.StateDeleting
	out.Again = known.nextCheck(m.Generation, pc.now(), pc.lookInterval)
	out.Ready = outcome.Finding{
		Reason: v1beta2.ReasonRemoving, Message: "waiting for the deletion of " + excerpt.FirstFew(stuck),
	}
	return out
}

// shortestDelay returns the shortest positive duration, or 0 if no duration is positive.
func shortestDelay(durations ...time.Duration) time.Duration {
	var shortest time.Duration
	for _, d := range durations {
		if d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	return shortest
}
