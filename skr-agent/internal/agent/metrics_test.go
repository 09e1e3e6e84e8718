package agent

import (
	"maps"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

func family(t *testing.T, name string) []*dto.Metric {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

func TestModulesAreCountedByState(t *testing.T) {
	manifest := func(module string, state v1beta2.State) v1beta2.Manifest {
		m := v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{Name: module, Labels: map[string]string{v1beta2.LabelModuleName: module}},
		}
		m.Status.State = state
		return m
	}
	for _, c := range []struct {
		installed []v1beta2.Manifest
		want      map[string]float64
	}{
		{
			[]v1beta2.Manifest{manifest("keda", v1beta2.StateReady), manifest("istio", v1beta2.StateError)},
			map[string]float64{"keda Ready": 1, "istio Error": 1},
		},
		{[]v1beta2.Manifest{manifest("keda", v1beta2.StateError)}, map[string]float64{"keda Error": 1}},
		{nil, map[string]float64{}},
	} {
		measureModules(c.installed)
		got := map[string]float64{}
		for _, m := range family(t, "kyma_pull_agent_modules") {
			got[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("got metrics %v, want %v", got, c.want)
		}
	}
}

func TestTimeMetricsAreAbsentBeforeFirstPoll(t *testing.T) {
	for _, name := range []string{
		"kyma_pull_agent_last_poll_timestamp_seconds", "kyma_pull_agent_bundle_sequence",
		"kyma_pull_agent_bundle_expiry_timestamp_seconds",
		"kyma_pull_agent_root_expiry_timestamp_seconds", "kyma_pull_agent_certificate_expiry_timestamp_seconds",
		"kyma_pull_agent_notifications_connected",
	} {
		if got := family(t, name); got != nil {
			t.Errorf("got %v for %s, want no metric", got, name)
		}
	}
	if got := family(t, "kyma_pull_agent_bundles_refused_total"); len(got) != len(refusal.Reasons) {
		t.Errorf("got %d reasons of refusals, want %d", len(got), len(refusal.Reasons))
	}

	a := newAgent(Options{Puller: pull.New(pull.Options{})})
	a.measurePoll(true, false, time.Now())
	if got := family(t, "kyma_pull_agent_poll_failures_total"); len(got) != 1 || got[0].GetCounter().GetValue() != 1 {
		t.Errorf("got failed polls %v after one failure, want 1", got)
	}
	if got := family(t, "kyma_pull_agent_last_poll_timestamp_seconds"); got != nil {
		t.Errorf("got time of the last poll %v after a failure, want no metric", got)
	}
}
