package install

import (
	"context"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/readiness"
)

func (up *upgrader) addReadiness(
	ctx context.Context, m *v1beta2.Manifest, known *memo, out outcome.Outcome, heldBack time.Duration,
) (outcome.Outcome, error) {
	seen, watched, err := up.observer.observe(ctx, m, known, out.Inventory)
	if err != nil {
		return outcome.Outcome{}, err
	}
	result := readiness.ModuleState(seen)
	if known.heldReason != "" && result.State == v1beta2.StateReady {
		result = readiness.Verdict{State: v1beta2.StateWarning, Message: known.heldReason}
	}
	out.State = result.State
	out.Ready = outcome.Finding{
		Reason: string(result.State), Message: result.Message, OK: result.State == v1beta2.StateReady,
	}
	if !out.Ready.OK && readiness.PullsNoImage(seen) {
		out.Ready.Reason = v1beta2.ReasonImagePull
	}
	if known.handingOver != "" {
		out.Again = shortestDelay(out.Again, known.handOverAgain)
		if out.Ready.OK && known.handOverAgain > handOverInterval {
			out.Ready.Message += ", " + known.handingOver
		}
	}
	if out.Ready.OK {
		known.pendingGeneration, known.checks = 0, 0
		if !watched {
			out.Again = shortestDelay(out.Again, 2*up.lookInterval)
		}
		out.Again = shortestDelay(out.Again, heldBack, up.resync-up.now().Sub(known.checkedAt))
		return out, nil
	}
	out.Again = shortestDelay(out.Again, known.nextCheck(m.Generation, up.now(), up.lookInterval), heldBack)
	return up.pacer.applyReadyTimeout(known, out), nil
}
