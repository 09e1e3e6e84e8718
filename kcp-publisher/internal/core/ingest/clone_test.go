package ingest

import (
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// claim is one report, a second after the previous one.
type claim struct {
	instance, twin      string
	confirmed, enrolled bool
	after               time.Duration
	// counts is whether its request is taken up, clone whether the runtime is a clone from then on.
	counts, clone bool
}

func TestTwoAgentsWithOneKeyAreFound(t *testing.T) {
	for name, reports := range map[string][]claim{
		"one agent": {{instance: "a", counts: true}, {instance: "a", counts: true}},
		"an agent that restarts": {
			{instance: "a", counts: true}, {instance: "b"}, {instance: "b"},
			{instance: "b", confirmed: true, counts: true}, {instance: "c"}, {
				instance: "c", confirmed: true, counts: true,
			},
		},
		"a copy that takes turns": {
			{instance: "a", counts: true}, {instance: "b"}, {instance: "a", clone: true}, {
				instance: "b", confirmed: true, clone: true,
			},
		},
		"a copy that is confirmed while the original is away": {
			{instance: "a", counts: true}, {instance: "b"}, {instance: "b", confirmed: true, counts: true}, {
				instance: "a", confirmed: true, clone: true,
			},
		},
		"an original that finds the copy": {{instance: "a", counts: true}, {instance: "a", twin: "b", clone: true}},
		"a copy that finds the original":  {{instance: "a", counts: true}, {instance: "b", twin: "a", clone: true}},
		"a copy of an earlier version": {
			{instance: "a", counts: true}, {instance: ""}, {instance: "", after: time.Minute},
			{instance: "a", clone: true},
		},
		"an agent that is set back to an earlier version": {
			{instance: "a", counts: true}, {instance: ""}, {instance: "", after: 10 * time.Minute, counts: true},
		},
		"an agent of an earlier version": {{instance: "", counts: true}, {instance: "", counts: true}},
		"an agent that is upgraded from an earlier version": {
			{instance: "", counts: true}, {instance: "a"}, {instance: "a", confirmed: true, counts: true},
		},
		"an operator who enrolls another key": {
			{instance: "a", counts: true}, {instance: "b"}, {instance: "a", clone: true},
			{instance: "c", enrolled: true, counts: true}, {instance: "c", counts: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var agent *v1beta2.ReportingAgent
			now := noon
			for i, r := range reports {
				now = now.Add(time.Second + r.after)
				report := bundle.AcceptedReport{
					Report:   bundle.Report{Instance: r.instance, Twin: r.twin, Confirmed: r.confirmed},
					Enrolled: r.enrolled,
				}
				before := agent
				agent = reportingAgent(before, report, now)
				if got := requestCounts(before, *agent, report, now); got != r.counts {
					t.Errorf("report %d: its request counts: %v", i, got)
				}
				if got := agent.Clone != ""; got != r.clone {
					t.Errorf("report %d: a clone: %q", i, agent.Clone)
				}
			}
		})
	}
}

// TestCloneRequestsNothingOfTheOriginal lets the admin of a copy remove all modules there.
func TestCloneRequestsNothingOfTheOriginal(t *testing.T) {
	var status v1beta2.KymaStatus
	report := func(instance string, confirmed bool, modules ...v1beta2.Module) {
		Remember(&status, bundle.AcceptedReport{Report: bundle.Report{
			Instance: instance, Confirmed: confirmed, ClusterUID: "of both", Time: noon, Sequence: 1,
			Kyma: &bundle.ReportedKyma{Spec: v1beta2.KymaSpec{Channel: "regular", Modules: modules}, Generation: 2},
		}}, "key", "thumbprint", noon)
	}
	report("original", true, v1beta2.Module{Name: "keda"})
	report("copy", false)
	if got := len(status.Runtime.Requested.Spec.Modules); got != 1 {
		t.Errorf("after the copy's report, %d modules are requested", got)
	}
	report("original", true, v1beta2.Module{Name: "keda"})
	report("copy", true)
	if got := len(status.Runtime.Requested.Spec.Modules); got != 1 || status.Runtime.Agent.Clone == "" {
		t.Errorf("%d modules are requested, the agent is %+v", got, status.Runtime.Agent)
	}
}
