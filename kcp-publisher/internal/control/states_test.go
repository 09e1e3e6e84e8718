package control

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func valueOf(t *testing.T, gauge prometheus.Gauge) float64 {
	t.Helper()
	var m dto.Metric
	if err := gauge.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

func TestRuntimesAndTheirModulesAreCountedByState(t *testing.T) {
	s := states{of: map[string]counted{}}
	known := func(module string) bool { return module == "counted" }
	status := func(state v1beta2.State, modules ...v1beta2.ModuleStatus) v1beta2.KymaStatus {
		return v1beta2.KymaStatus{State: state, Modules: modules}
	}
	const unusual = v1beta2.State("Unusual")
	module := func(name string, state v1beta2.State) v1beta2.ModuleStatus {
		return v1beta2.ModuleStatus{Name: name, State: state}
	}
	check := func(when string, kymas, ready, failed, other float64) {
		t.Helper()
		got := []float64{
			valueOf(t, runtimes.WithLabelValues(string(unusual))), valueOf(t, moduleStates.WithLabelValues("counted", string(v1beta2.StateReady))),
			valueOf(t, moduleStates.WithLabelValues("counted", string(v1beta2.StateError))), valueOf(t, moduleStates.WithLabelValues(otherModules, string(v1beta2.StateReady))),
		}
		for i, want := range []float64{kymas, ready, failed, other} {
			if got[i] != want {
				t.Errorf("%s: counted %v, want %v", when, got, []float64{kymas, ready, failed, other})
				return
			}
		}
	}
	s.set("one", status(unusual, module("counted", v1beta2.StateReady), module("of-the-runtimes-own-making", v1beta2.StateReady)), known)
	s.set("two", status(unusual, module("counted", v1beta2.StateReady)), known)
	check("two runtimes", 2, 2, 0, 1)
	s.set("two", status(unusual, module("counted", v1beta2.StateError)), known)
	check("one module fails", 2, 1, 1, 1)
	s.set("two", status(unusual, module("counted", v1beta2.StateError)), known)
	check("nothing changes", 2, 1, 1, 1)
	s.forget("one")
	s.forget("one")
	check("one is gone", 1, 0, 1, 0)
	s.forget("two")
	check("both are gone", 0, 0, 0, 0)
}
