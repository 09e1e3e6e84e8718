package follow

import "github.com/kyma-pull/kyma-pull/internal/measure"

var (
	ready = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_git_ready",
		Help: "Whether the newest commit was applied (1) or could not be read or applied (0).", Leader: true,
	})
	failures = measure.Counter(measure.Definition{
		Name: "kyma_pull_publisher_git_failures_total", Help: "Failed Git repository polls.", Leader: true,
	})
	held = measure.Gauge(measure.Definition{
		Name: "kyma_pull_publisher_git_held",
		Help: "Whether publishing is held until a commit is completely applied (1).", Leader: true,
	})
	changes = measure.Counters[string](measure.Definition{
		Name:   "kyma_pull_publisher_git_changes_total",
		Help:   "Objects that a commit changed in the control plane, by action.",
		Labels: []string{"action"}, Leader: true,
	})
	applied = measure.Gauges(measure.Definition{
		Name: "kyma_pull_publisher_git_commit_info", Help: "1 for the applied commit.", Labels: []string{"commit"},
		Leader: true,
	})
)
