package agent

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
)

// upgradeImage updates the image in the agent's Deployment. Failures with causes outside the agent's image, such as the
// runtime's policies, do not count against the image.
func (a *Agent) upgradeImage(ctx context.Context, p *roundRun) {
	outcome, err := a.Deployment.Reconcile(ctx, a.targetImage(ctx), a.recordTrial(p))
	if err != nil {
		p.log.Error(err, "failed to reconcile the agent's Deployment, retrying with the next poll")
		return
	}
	if outcome.Message != "" {
		p.log.Info(outcome.Message)
	}
	if outcome.Problem != "" && outcome.Problem != a.agentProblem {
		a.emitEvent(ctx, v1beta2.ReasonAgentUpgradeRolledBack, outcome.Problem)
	}
	a.agentProblem, p.facts.IsProven = outcome.Problem, outcome.Proven
}

// recordTrial records the round's failures that count against the agent's image. It returns the time since the last of
// these failures, which is 0 before the first report.
func (a *Agent) recordTrial(p *roundRun) time.Duration {
	isOwn := slices.ContainsFunc(p.errs, canBeAgentFault) || canBeAgentFault(a.storeErr) ||
		slices.ContainsFunc(p.written.Failures, func(f objects.Failure) bool { return canBeAgentFault(f.Err) })
	if isOwn {
		a.trial.ownFailure.Store(true)
	}
	// If the agent could not store a bundle, the registry worked.
	isRegistry := a.pollFailed && a.storeErr == nil || a.delivery.failed
	if isRegistry {
		a.trial.registryFailure.Store(true)
	}
	switch {
	case isOwn || isRegistry || a.delivery.content == "":
		a.healthySince = time.Time{}
	case a.healthySince.IsZero():
		a.healthySince = a.Now()
	default:
		return a.Now().Sub(a.healthySince)
	}
	return 0
}

// trialFailures records failures since the process started. They decide whether the agent's new image is rolled back.
type trialFailures struct {
	ownFailure atomic.Bool // the agent failed, and the image on trial can be the cause
	// registryFailure is true if the registry returned no acceptable bundle, responded too slowly to fetch all content,
	// or did not accept a report.
	registryFailure atomic.Bool
}

// targetImage returns the agent's image in the last accepted bundle. It returns an empty Target if the bundle must not
// change the image: if the bundle expired, if the newest root of trust would refuse it, or if the root of trust has
// release keys.
func (a *Agent) targetImage(ctx context.Context) upgrade.Target {
	b := a.Puller.Current()
	if b == nil || a.Puller.FrozenReason(ctx) != "" || a.Puller.Root().HasReleaseKeys() {
		return upgrade.Target{}
	}
	return upgrade.Target{
		Image: agentImage(b.State.Settings), AgentVersion: a.Version,
		AllowsRollback: b.Statement.Predicate.AllowsAgentRollback,
	}
}

// watchImage rolls back the agent's image if it is not proven before the deadline. It runs outside of reconciliations,
// because a broken image could block them.
func (a *Agent) watchImage(ctx context.Context) error {
	for wait := a.UpgradeDeadline; ; wait = watchImageInterval {
		if !pause.Sleep(ctx, wait) {
			return nil
		}
		outcome, err := a.Deployment.EnforceDeadline(ctx, a.trial.registryFailure.Load() && !a.trial.ownFailure.Load())
		switch {
		case err != nil:
			ctrl.Log.Error(err, "failed to reconcile the agent's Deployment")
		case outcome.Proven:
			return nil
		case outcome.Message != "":
			ctrl.Log.Info(outcome.Message)
		}
	}
}

// watchImageInterval is the interval between watchImage's checks after the deadline.
const watchImageInterval = 30 * time.Second

// agentImage returns the agent's image in the settings. If the settings contain a mirror for its registry, the image
// has the mirror's name. agentImage returns "" for an image without a digest.
func agentImage(settings bundle.Settings) string {
	name, pin, pinned := strings.Cut(settings.Agent, "@")
	if !pinned {
		return ""
	}
	return settings.MirroredName(name) + "@" + pin
}
