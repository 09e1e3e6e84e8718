package follow

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	ready = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_git_ready", Help: "Whether the newest commit was applied (1) or could not be read or applied (0).",
	})
	failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kyma_pull_publisher_git_failures_total", Help: "Looks at the Git repository that failed.",
	})
	held = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_git_held", Help: "Whether nothing is published because a commit is applied in part (1).",
	})
	changes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kyma_pull_publisher_git_changes_total", Help: "Objects that a commit changed in the control plane, by what was done.",
	}, []string{"action"})
	applied = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kyma_pull_publisher_git_commit", Help: "1 for the commit that the control plane has.",
	}, []string{"commit"})
)

func init() { metrics.Registry.MustRegister(ready, failures, held, changes, applied) }
