package ingest

import (
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// claim is an agent's report. The time between the previous report and this one is one second plus the duration in the
// field after.
type claim struct {
	instance, twin      string
	confirmed, enrolled bool
	after               time.Duration
	// counts is true if the publisher must use the module request in the report. clone is true if the publisher must
	// have detected two agents.
	counts, clone bool
}

func TestTwoAgentsWithOneKeyAreDetected(t *testing.T) {
	for name, reports := range map[string][]claim{
		"single agent": {{instance: "a", counts: true}, {instance: "a", counts: true}},
		"agent restarts twice": {
			{instance: "a", counts: true}, {instance: "b"}, {instance: "b"},
			{instance: "b", confirmed: true, counts: true}, {instance: "c"}, {
				instance: "c", confirmed: true, counts: true,
			},
		},
		"original agent and its copy alternate": {
			{instance: "a", counts: true}, {instance: "b"}, {instance: "a", clone: true}, {
				instance: "b", confirmed: true, clone: true,
			},
		},
		"copy of an agent is confirmed while the original is offline": {
			{instance: "a", counts: true}, {instance: "b"}, {instance: "b", confirmed: true, counts: true}, {
				instance: "a", confirmed: true, clone: true,
			},
		},
		"original agent reports its copy": {
			{instance: "a", counts: true}, {instance: "a", twin: "b", clone: true},
		},
		"copy of an agent reports the original": {
			{instance: "a", counts: true}, {instance: "b", twin: "a", clone: true},
		},
		"copy of an agent has an older version that reports no instance": {
			{instance: "a", counts: true}, {instance: ""}, {instance: "", after: time.Minute},
			{instance: "a", clone: true},
		},
		"agent is rolled back to a version that reports no instance": {
			{instance: "a", counts: true}, {instance: ""}, {instance: "", after: 10 * time.Minute, counts: true},
		},
		"agent that reports no instance": {{instance: "", counts: true}, {instance: "", counts: true}},
		"agent is upgraded from a version that reports no instance": {
			{instance: "", counts: true}, {instance: "a"}, {instance: "a", confirmed: true, counts: true},
		},
		"original agent with a copy enrolls its key again": {
			{instance: "a", counts: true}, {instance: "b", twin: "c", enrolled: true, clone: true},
			{instance: "c", twin: "b", clone: true},
		},
		"first report is from an agent with a copy": {{instance: "a", twin: "b", enrolled: true, clone: true}},
		"another key enrolls after a copy was detected": {
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
				if got := isRequestAccepted(before, *agent, report, now); got != r.counts {
					t.Errorf("report %d: got request applied %t, want %t", i, got, r.counts)
				}
				if got := agent.Clone != ""; got != r.clone {
					t.Errorf("report %d: got clone %q, want detected %t", i, agent.Clone, r.clone)
				}
			}
		})
	}
}

// A copy of the runtime removes all modules from its Kyma.
func TestCloneDoesNotChangeRequestedModules(t *testing.T) {
	var status v1beta2.KymaStatus
	report := func(instance string, confirmed bool, modules ...v1beta2.Module) {
		RecordReport(&status, bundle.AcceptedReport{Report: bundle.Report{
			Instance: instance, Confirmed: confirmed, ClusterUID: "shared", Time: noon, Sequence: 1,
			Kyma: &bundle.ReportedKyma{Spec: v1beta2.KymaSpec{Channel: "regular", Modules: modules}, Generation: 2},
		}}, "key", "thumbprint", noon)
	}
	report("original", true, v1beta2.Module{Name: "keda"})
	report("copy", false)
	if got := len(status.Runtime.Requested.Spec.Modules); got != 1 {
		t.Errorf("after the copy's first report: got %d requested modules, want 1", got)
	}
	report("original", true, v1beta2.Module{Name: "keda"})
	report("copy", true)
	if got := status.Runtime.Requested.Instance; got != "original" {
		t.Errorf("got a request of instance %q, want original", got)
	}
	if got := len(status.Runtime.Requested.Spec.Modules); got != 1 || status.Runtime.Agent.Clone == "" {
		t.Errorf("got %d requested modules and agent %+v, want 1 and a clone", got, status.Runtime.Agent)
	}
}

func TestAlternatingReportsDoNotChangeTheCloneMessage(t *testing.T) {
	agent := &v1beta2.ReportingAgent{Instance: "a"}
	messages := map[string]bool{}
	for i, instance := range []string{"b", "a", "b", "a"} {
		twin := map[string]string{"a": "b", "b": "a"}[instance]
		report := bundle.AcceptedReport{Report: bundle.Report{Instance: instance, Twin: twin}}
		agent = reportingAgent(agent, report, noon.Add(time.Duration(i)*time.Second))
		messages[agent.Clone] = true
	}
	if len(messages) != 1 {
		t.Errorf("got messages %v, want one", messages)
	}
}

// After a restore, the control plane does not know the key that a cluster and its copy share. The copy's request counts
// only after the copy has confirmed that no other agent uses the key.
func TestRequestIsVerifiedAfterItsAgentIsConfirmed(t *testing.T) {
	var status v1beta2.KymaStatus
	report := func(instance string, enrolled, confirmed bool) string {
		RecordReport(&status, bundle.AcceptedReport{Enrolled: enrolled, Report: bundle.Report{
			Instance: instance, Confirmed: confirmed, ClusterUID: "shared", Time: noon, Sequence: 1,
			Kyma: &bundle.ReportedKyma{Spec: v1beta2.KymaSpec{Channel: "regular"}, Generation: 2},
		}}, "key", "thumbprint", noon)
		return status.Runtime.Requested.Instance
	}
	for i, c := range []struct {
		instance            string
		enrolled, confirmed bool
		verified            string
	}{
		{instance: "first", enrolled: true, verified: "first"}, // no other agent has reported
		{instance: "first", verified: "first"},
		{instance: "copy", enrolled: true},
		{instance: "copy"},
		{instance: "copy", confirmed: true, verified: "copy"},
	} {
		if got := report(c.instance, c.enrolled, c.confirmed); got != c.verified {
			t.Errorf("report %d: got a verified request of %q, want %q", i, got, c.verified)
		}
	}
}
