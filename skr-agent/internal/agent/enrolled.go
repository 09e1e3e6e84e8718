package agent

import (
	"context"

	"github.com/go-logr/logr"
)

// BootstrapSecret is the name of the Secret that an operator applies to enroll the runtime.
const BootstrapSecret = "skr-agent-bootstrap"

// restartIfReenrolled restarts the agent if an operator applied another bootstrap Secret. The agent reads the Secret
// only at startup. If the new Secret is invalid, the agent logs the error and continues with the previous one.
func (a *Agent) restartIfReenrolled(ctx context.Context, log logr.Logger) bool {
	if a.EnrollmentChanged == nil {
		return false
	}
	again, err := a.EnrollmentChanged(ctx)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		a.enrolled.Store(true) // the next reconciliation reads the Secret again
		if a.logged.Update(loggedBootstrap, err.Error()) {
			log.Error(err, "failed to read the new bootstrap Secret, continuing with the previous one")
		}
		return false
	}
	a.logged.Update(loggedBootstrap, "")
	if again {
		log.Info("the bootstrap Secret changed, restarting", "secret", BootstrapSecret)
		a.Restart()
	}
	return again
}
