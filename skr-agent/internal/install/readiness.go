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
	if rights := known.deniedReadsOf(m); rights != nil {
		out.Rights = rights
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
		out = up.addHandover(known, out)
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

// addHandover adds the wait for other modules to a ready module's message. A short wait is normal during an upgrade of
// both modules. After the ready timeout, the state is Warning, unless the other modules only wait for their upgrade.
func (up *upgrader) addHandover(known *memo, out outcome.Outcome) outcome.Outcome {
	out.Again = shortestDelay(out.Again, known.handOverAgain)
	if !out.Ready.OK || known.handOverAgain <= handOverInterval {
		return out
	}
	if since := known.handOverSince; !since.IsZero() && up.now().Sub(since) > up.pacer.readyTimeout {
		out.State = v1beta2.StateWarning
		out.Ready = outcome.Finding{Reason: string(out.State), Message: known.handingOver}
		return out
	}
	out.Ready.Message += ", " + known.handingOver
	return out
}
