package measure

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// GoRuntime registers Go runtime metrics: client_golang's default metrics or, if all is true, all metrics. It replaces
// controller-runtime's registration.
func GoRuntime(all bool) error {
	few, full := collectors.NewGoCollector(),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll))
	metrics.Registry.Unregister(full)
	metrics.Registry.Unregister(few)
	chosen := few
	if all {
		chosen = full
	}
	var known prometheus.AlreadyRegisteredError
	if err := metrics.Registry.Register(chosen); err != nil && !errors.As(err, &known) {
		return fmt.Errorf("register the metrics of Go's runtime: %w", err)
	}
	return nil
}
