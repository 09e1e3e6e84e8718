package measure

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// GoRuntime says how much of Go's runtime is exported: what client_golang exports by default, such as go_goroutines and
// go_memstats_heap_inuse_bytes, or all of it, as controller-runtime does, which is four times as much.
func GoRuntime(all bool) error {
	few, full := collectors.NewGoCollector(), collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll))
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
