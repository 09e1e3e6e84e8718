package agent

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// upgrade lets the agent's own Deployment run the image of the bundle in force. whole says that nothing was wrong with
// this round.
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
	if outcome.Say != "" {
		log.Info(outcome.Say)
	}
	if outcome.Problem != "" && outcome.Problem != a.agentProblem {
		a.event(ctx, v1beta2.ReasonAgentUpgradeRolledBack, outcome.Problem)
	}
	a.agentProblem, a.proven = outcome.Problem, outcome.Proven
}

// wantedImage is the bundle's, empty for none. A bundle that expired, or a root with release keys, changes nothing.
func (a *Agent) wantedImage() string {
	b := a.Puller.Current()
	if b == nil || a.Puller.Expired() || a.Puller.Root().Locked() {
		return ""
	}
	return agentImage(b.State.Settings)
}

// watchImage rolls the agent's image back when it led for as long as it has to prove itself. It asks nothing of the
// rounds: they may hang.
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
		case outcome.Say != "":
			ctrl.Log.Info(outcome.Say)
		}
	}
}

// again is when the Deployment is looked at once more where that failed, or where a newer pod is on its way.
const again = 30 * time.Second

// agentImage returns the image that the agent shall run, from where the runtime reads it.
func agentImage(settings bundle.Settings) string {
	name, pin, pinned := strings.Cut(settings.Agent, "@")
	if !pinned {
		return ""
	}
	return settings.Mirrored(name) + "@" + pin
}
