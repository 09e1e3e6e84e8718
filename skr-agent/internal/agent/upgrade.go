package agent

import (
	"context"
	"strings"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// upgrade lets the agent's own Deployment run the image of the bundle in force, after a round that went well.
func (a *Agent) upgrade(ctx context.Context, log logr.Logger) {
	b := a.Puller.Current()
	if a.Deployment == nil || b == nil {
		return
	}
	if a.began.IsZero() {
		a.began = a.Now()
	}
	said, problem, err := a.Deployment.Round(ctx, agentImage(b.State.Settings), a.Now().Sub(a.began))
	if err != nil {
		log.Error(err, "the agent cannot keep its own Deployment") // the next poll tries again
		return
	}
	if said != "" {
		log.Info(said)
	}
	if problem != "" && problem != a.agentProblem {
		a.event(ctx, "AgentImageGivenUp", problem)
	}
	a.agentProblem = problem
}

// agentImage gives the image that the agent shall run, from where the runtime reads it.
func agentImage(settings bundle.Settings) string {
	name, pin, pinned := strings.Cut(settings.Agent, "@")
	if !pinned {
		return ""
	}
	return settings.Mirrored(name) + "@" + pin
}
