package scenario

import (
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// The test counts the agent's requests in the runtime API server's audit log, including leases, Events and reports. The
// counts do not depend on the machine's load.
func TestAgentSendsFewRequestsForATypicalModule(t *testing.T) {
	suite.Long(t)
	ctx := t.Context()
	f := startFleet(t, fleet.Options{
		// With leader election, the agent stores each report before it pushes it.
		LeaderElect: true, PublisherFlags: []string{"--agent-report-interval=5m"},
		AgentRights: []string{"agent.yaml", "all-modules.yaml"},
	})
	must(t, f.Offer(ctx, samplemodule.Typical("1.0.0"), samplemodule.Typical("1.1.0")))
	release := func(version string) {
		v := samplemodule.Typical(version)
		must(t, f.Release(ctx, v.Module, v.Component(), sample.Channel("regular", version)))
	}
	release("1.0.0")
	r, err := f.AddRuntime(ctx, "one", "regular")
	must(t, err)
	var before int
	settled := func(what string, most int) {
		t.Helper()
		time.Sleep(15 * time.Second) // until the agent has reported and its caches are current
		requests, err := r.Requests()
		must(t, err)
		logRequests(t, what, requests[before:])
		if n := len(requests) - before; n > most {
			t.Errorf("%s: %d requests, want at most %d", what, n, most)
		}
		before = len(requests)
	}
	must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, v1beta2.ReasonAccepted))
	settled("start of the agent", 90)

	lantern := []v1beta2.Module{managed(samplemodule.TypicalModule)}
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = lantern }))
	must(t, r.UntilState(ctx, samplemodule.TypicalModule, "1.0.0", v1beta2.StateReady))
	settled("install of 27 objects", 90)

	release("1.1.0")
	must(t, r.UntilState(ctx, samplemodule.TypicalModule, "1.1.0", v1beta2.StateReady))
	settled("promotion", 40)

	time.Sleep(45 * time.Second)
	settled("idle minute", 2)

	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = nil }))
	must(t, r.UntilGone(ctx, samplemodule.TypicalModule))
	settled("removal", 140)
}

// logRequests logs requests by verb and resource.
func logRequests(t *testing.T, what string, requests []cluster.Request) {
	t.Helper()
	counts := map[string]int{}
	for _, request := range requests {
		what := request.Verb + " " + request.Resource
		if request.Resource == "secrets" {
			what += " " + request.Name[:min(len(request.Name), len("kyma-pull-content"))]
		}
		counts[what]++
	}
	t.Logf("%s: %d requests, %.1f per object", what, len(requests), float64(len(requests))/samplemodule.TypicalObjects)
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%4d %s", counts[kind], kind)
	}
}
