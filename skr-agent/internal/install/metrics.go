package install

import "github.com/kyma-pull/kyma-pull/internal/measure"

var (
	applyDuration = measure.Histograms(measure.Definition{
		Name: "kyma_pull_agent_manifest_apply_duration_seconds",
		Help: "Time to compare and apply all of a module's objects.", Labels: []string{"module"}, Leader: true,
	}, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
	objectsApplied = measure.Counters[string](measure.Definition{
		Name:   "kyma_pull_agent_objects_applied_total",
		Help:   "Objects that the agent created or changed to match their module's content.",
		Labels: []string{"module"}, Leader: true,
	})
	driftCorrected = measure.Counters[string](measure.Definition{
		Name:   "kyma_pull_agent_drift_corrected_total",
		Help:   "Objects in installed modules that another client changed or deleted and that the agent restored.",
		Labels: []string{"module", "kind"}, Leader: true,
	})
)
