package agent

import (
	"context"

	"github.com/go-logr/logr"
)

// BootstrapSecret is the Secret with which an operator enrolls the runtime.
const BootstrapSecret = "skr-agent-bootstrap"

// enrolledAgain starts the agent again if an operator applied another bootstrap Secret: location, credentials, root of
// trust and token are the ones that the agent started with. It checks the Secret after a watch reported a change, and
// at the first round, because the Secret can change while another agent leads. An invalid Secret is logged, and the
// former one stays in force.
func (a *Agent) enrolledAgain(ctx context.Context, log logr.Logger, first bool) bool {
	if changed := a.enrolled.Swap(false); a.Enrolled == nil || !changed && !first {
		return false
	}
	again, err := a.Enrolled(ctx)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		a.enrolled.Store(true) // the next round reads it again
		if a.logged.Changed(loggedBootstrap, err.Error()) {
			log.Error(err, "the new bootstrap Secret cannot be used, the former one stays in force")
		}
		return false
	}
	a.logged.Changed(loggedBootstrap, "")
	if again {
		log.Info("the bootstrap Secret changed, starting again", "secret", BootstrapSecret)
		a.Restart()
	}
	return again
}
