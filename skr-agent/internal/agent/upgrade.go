package agent

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/upgrade"
)

// upgrade reconciles the image of the agent's Deployment. whole reports that the round had no failure.
func (a *Agent) upgrade(ctx context.Context, log logr.Logger, whole bool) {
	if a.Deployment == nil {
		return
	}
	var well time.Duration
	switch {
	case !whole || a.unread || a.delivery.down || a.delivery.sent == "":
		a.well = time.Time{}
	case a.well.IsZero():
		a.well = a.Now()
	default:
		well = a.Now().Sub(a.well)
	}
	outcome, err := a.Deployment.Round(ctx, a.wantedImage(), well)
	if err != nil {
		log.Error(err, "failed to reconcile the agent's Deployment") // the next poll tries again
		return
	}
	if outcome.Message != "" {
		log.Info(outcome.Message)
	}
	if outcome.Problem != "" && outcome.Problem != a.agentProblem {
		a.event(ctx, v1beta2.ReasonAgentUpgradeRolledBack, outcome.Problem)
	}
	a.agentProblem, a.proven = outcome.Problem, outcome.Proven
}

// wantedImage returns the image of the bundle in force. An expired bundle, and any bundle under a root with release
// keys, changes nothing.
func (a *Agent) wantedImage() upgrade.Wanted {
	b := a.Puller.Current()
	if b == nil || a.Puller.Expired() || a.Puller.Root().Locked() {
		return upgrade.Wanted{}
	}
	return upgrade.Wanted{
		Image: agentImage(b.State.Settings), Release: a.Version, GoesBack: b.Statement.Predicate.AgentGoesBack,
	}
}

// watchImage rolls the agent's image back if it did not prove itself within the deadline. It is independent of the
// rounds, which can hang.
func (a *Agent) watchImage(ctx context.Context) error {
	for wait := a.UpgradeDeadline; ; wait = again {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		outcome, err := a.Deployment.Overdue(ctx)
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

// again is the time until the Deployment is checked again after a failure, or while a newer Pod starts.
const again = 30 * time.Second

// agentImage returns the agent's image of the settings, with the runtime's mirrors applied.
func agentImage(settings bundle.Settings) string {
	name, pin, pinned := strings.Cut(settings.Agent, "@")
	if !pinned {
		return ""
	}
	return settings.Mirrored(name) + "@" + pin
}
