package measure

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// GoRuntime registers metrics of the Go runtime. By default, these are the metrics that client_golang exports, such as
// go_goroutines and go_memstats_heap_inuse_bytes. If all is true, it registers all metrics, like controller-runtime,
// which are four times as many.
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
