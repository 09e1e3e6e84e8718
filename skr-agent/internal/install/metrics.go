package install

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	applyDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "kyma_pull_agent_manifest_apply_duration_seconds",
		Help:    "Time to compare and apply all objects of a module.",
		Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"module"})
	objectsApplied = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kyma_pull_agent_objects_applied_total",
		Help: "Objects that were created or changed to be as their module has them.",
	}, []string{"module"})
	driftCorrected = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kyma_pull_agent_drift_corrected_total",
		Help: "Objects of installed modules that somebody had changed or deleted and that were put back.",
	}, []string{"module", "kind"})
)

func init() { metrics.Registry.MustRegister(applyDuration, objectsApplied, driftCorrected) }
