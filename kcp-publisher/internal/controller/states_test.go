package controller

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

type offered struct{}

func (offered) HasModule(module string) bool           { return module == "keda" }
func (offered) HasVersion(module, version string) bool { return module == "keda" && version == "1.7.0" }

func collected(t *testing.T, from prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(from); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			found[key] = m.GetGauge().GetValue()
		}
	}
	return found
}

func TestMetricsCountRuntimesByHealthAndModulesByVersion(t *testing.T) {
	s := NewFleetMetrics()
	p := s.addPart(fleetstate.New(), nil)
	if got := collected(t, s); len(got) != 0 {
		t.Errorf("replica without runtimes: got metrics %v, want none", got)
	}
	name := func(kyma string) types.NamespacedName {
		return types.NamespacedName{Namespace: "kcp-system", Name: kyma}
	}
	at := func(minute int) *time.Time { return new(noon.Add(time.Duration(minute) * time.Minute)) }
	healthy := fleet.Runtime{State: v1beta2.StateReady, Health: fleet.Healthy, LastReport: at(0),
		Modules: []fleet.RuntimeModule{
			{Name: "keda", Version: "1.7.0", State: v1beta2.StateReady}, {
				Name: "of-the-runtimes-own-making", Version: "6.6.6", State: v1beta2.StateReady,
			},
		}}
	failing := fleet.Runtime{State: v1beta2.StateError, Health: fleet.Failing, LastReport: at(5),
		Cause: &fleet.Cause{Situation: "ModuleBroken"}, Modules: []fleet.RuntimeModule{
			{Name: "keda", Version: "1.6.0-removed", State: v1beta2.StateError},
		}}
	p.setRuntime(name("one"), healthy, offered{})
	p.setRuntime(name("two"), healthy, offered{})
	p.setRuntime(name("two"), failing, offered{})
	p.setRuntime(name("two"), failing, offered{})
	p.setRuntime(name("three"),
		fleet.Runtime{Health: fleet.NeverReported,
			Modules: []fleet.RuntimeModule{{Name: "keda", State: v1beta2.StateProcessing}}}, offered{})
	p.isReady = func() bool { return true }
	p.fleet.Edit(name("one"), func(r *fleetstate.Runtime) { // as after an unchanged report
		r.Report = fleetstate.Report{Accepted: &bundle.AcceptedReport{}, ArrivedAt: *at(9)}
	})
	health := func(failing, never, healthy float64) map[string]float64 {
		const name = "kyma_pull_publisher_runtime_health "
		return map[string]float64{
			name + "Failing": failing, name + "Silent": 0, name + "NeverReported": never, name + "Suspended": 0,
			name + "Deleting": 0, name + "Behind": 0, name + "Healthy": healthy,
		}
	}
	want := health(1, 1, 1)
	maps.Copy(want, map[string]float64{
		"kyma_pull_publisher_runtimes Ready": 1, "kyma_pull_publisher_runtimes Error": 1,
		"kyma_pull_publisher_runtimes ":                   1,
		"kyma_pull_publisher_runtime_causes ModuleBroken": 1,
		"kyma_pull_publisher_modules keda Ready":          1, "kyma_pull_publisher_modules keda Error": 1,
		"kyma_pull_publisher_modules keda Processing": 1,
		"kyma_pull_publisher_modules (other) Ready":   1,
		// Labels are sorted by name: module, state, version.
		"kyma_pull_publisher_module_versions keda Ready 1.7.0":          1,
		"kyma_pull_publisher_module_versions keda Error (other)":        1,
		"kyma_pull_publisher_module_versions keda Processing (unknown)": 1,
		"kyma_pull_publisher_module_versions (other) Ready (other)":     1,
		"kyma_pull_publisher_oldest_report_timestamp_seconds":           float64(at(5).Unix()),
		"kyma_pull_publisher_publish_pending":                           0,
		"kyma_pull_publisher_registry_failing_runtimes":                 0,
	})
	if got := collected(t, s); !maps.Equal(got, want) {
		t.Errorf("got metrics\n%v\nwant\n%v", got, want)
	}
	for _, kyma := range []string{"two", "two", "three"} {
		p.dropRuntime(name(kyma))
	}
	p.fleet.Edit(name("one"), func(r *fleetstate.Runtime) { r.Pending.Add(noon) })
	got := collected(t, s)
	for _, gone := range []string{"kyma_pull_publisher_runtimes Error",
		"kyma_pull_publisher_module_versions keda Error (other)"} {
		if _, is := got[gone]; is {
			t.Errorf("series %s is still exported", gone)
		}
	}
	if got["kyma_pull_publisher_runtime_health Failing"] != 0 ||
		got["kyma_pull_publisher_runtime_health Healthy"] != 1 ||
		got["kyma_pull_publisher_oldest_report_timestamp_seconds"] != float64(at(9).Unix()) ||
		got["kyma_pull_publisher_publish_pending"] != 1 {
		t.Errorf("after two Kymas were dropped: got metrics %v", got)
	}
}

func TestMetricsAreTotalsOfAllShardsInAProcess(t *testing.T) {
	s := NewFleetMetrics()
	of := func() *metricsPart { return s.addPart(fleetstate.New(), func() bool { return true }) }
	waits := func(p *metricsPart, kyma string, at time.Time) {
		p.fleet.Edit(types.NamespacedName{Name: kyma}, func(r *fleetstate.Runtime) {
			r.Pending.Add(noon)
			r.Report = fleetstate.Report{Accepted: &bundle.AcceptedReport{}, ArrivedAt: at}
		})
	}
	name := func(kyma string) types.NamespacedName { return types.NamespacedName{Name: kyma} }
	healthy := fleet.Runtime{State: v1beta2.StateReady, Health: fleet.Healthy}
	first, second := of(), of()
	waits(first, "one", noon)
	waits(first, "moves", noon)
	waits(second, "two", noon.Add(time.Hour))
	for _, kyma := range []string{"one", "moves"} {
		first.setRuntime(name(kyma), healthy, offered{})
	}
	second.setRuntime(name("two"), healthy, offered{})
	// When a Kyma moves to another shard, the new shard can count it before the old shard stops counting it.
	second.setRuntime(name("moves"), healthy, offered{})
	first.dropRuntime(name("moves"))
	check := func(when string, runtimes, pending float64, oldest time.Time) {
		t.Helper()
		got := collected(t, s)
		if got["kyma_pull_publisher_runtimes Ready"] != runtimes ||
			got["kyma_pull_publisher_publish_pending"] != pending ||
			got["kyma_pull_publisher_oldest_report_timestamp_seconds"] != float64(oldest.Unix()) {
			t.Errorf("%s: got metrics %v", when, got)
		}
	}
	check("two shards", 3, 2, noon)
	first.remove()
	first.remove()
	first.setRuntime(name("one"), healthy, offered{}) // as in a reconcile that ends late
	check("one shard left", 2, 1, noon.Add(time.Hour))
	second.remove()
	if got := collected(t, s); len(got) != 0 {
		t.Errorf("without shards: got metrics %v, want none", got)
	}
}
