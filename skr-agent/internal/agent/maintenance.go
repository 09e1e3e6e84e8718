package agent

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
)

// logWaiting logs each waiting upgrade once. It returns the time until the next maintenance window, or 0 if no
// upgrade waits.
func (a *Agent) logWaiting(log logr.Logger, gate maintenance.Gate, waiting map[string]string) time.Duration {
	for _, module := range a.waiting.Replace(waiting) {
		log.Info("an upgrade is waiting", "module", module, "reason", waiting[module])
	}
	upgradesWaiting.Set(float64(len(waiting)))
	if len(waiting) == 0 || gate.OpensAt.IsZero() {
		return 0
	}
	return max(gate.OpensAt.Sub(a.Puller.CurrentTime()), time.Millisecond)
}
