package rollout

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/reports"
)

func celCheck(name, expression string) fleet.Check {
	return fleet.Check{Name: name, CEL: &fleet.CELCheck{Expression: expression}}
}

func TestPolicyChecksAreSelected(t *testing.T) {
	policy := &fleet.RolloutPolicy{}
	policy.Name = "careful"
	policy.Spec.Waves = []fleet.Wave{
		{Name: "canary", Checks: []fleet.Check{celCheck("works", "true"), celCheck("fast", "1 < 2")}},
		{Name: "half", Checks: []fleet.Check{celCheck("works", "true")}},
		{Name: "strict", Checks: []fleet.Check{celCheck("works", "false")}},
		{Name: "rest"},
	}
	for name, c := range map[string]struct {
		wave   string
		names  []string
		want   string
		refuse string
	}{
		"all checks of a wave": {"canary", nil, "fast works", ""},
		"one check of a wave":  {"canary", []string{"works"}, "works", ""},
		"a check that waves define differently": {"", nil, "",
			"waves of RolloutPolicy careful define check works differently: select one with --wave"},
		"a wave without checks": {"rest", nil, "", "wave rest of RolloutPolicy careful has no checks"},
		"a missing wave":        {"last", nil, "", "RolloutPolicy careful has no wave last"},
		"a check in another wave": {
			"half", []string{"fast"}, "", "wave half of RolloutPolicy careful has no check fast",
		},
	} {
		checks, err := findChecks(policy, c.wave, c.names)
		names := make([]string, 0, len(checks))
		for _, check := range checks {
			names = append(names, check.Name)
		}
		if got := strings.Join(names, " "); got != c.want || c.refuse == "" && err != nil ||
			c.refuse != "" && (err == nil || err.Error() != c.refuse) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	policy.Spec.Waves = policy.Spec.Waves[:2]
	if checks, err := findChecks(policy, "", nil); err != nil || len(checks) != 2 {
		t.Errorf("equal checks of two waves: got %v, %v", checks, err)
	}
}

func TestAgentsMustSupportCheckRuns(t *testing.T) {
	kyma := &v1beta2.Kyma{}
	if err := checkRunsChecks(kyma); err == nil || !strings.Contains(err.Error(), "not reported") {
		t.Errorf("without a report: got %v", err)
	}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Observed: &v1beta2.ObservedBundle{Features: []string{"checks"}}}
	if err := checkRunsChecks(kyma); err == nil || !strings.Contains(err.Error(), "check-run: upgrade the agent") {
		t.Errorf("old agent: got %v", err)
	}
	kyma.Status.Runtime.Observed.Features = []string{"check-run", "checks"}
	if err := checkRunsChecks(kyma); err != nil {
		t.Error(err)
	}
}

func TestCheckRunResultIsShown(t *testing.T) {
	outcome := func(name string, result v1beta2.CheckResult) bundle.ReportedCheck {
		return bundle.ReportedCheck{
			CheckOutcome: v1beta2.CheckOutcome{
				Name:    name,
				Result:  result,
				Value:   "0.92",
				Before:  "0.21",
				Message: "above 0.5",
			},
		}
	}
	f := &rolloutCheckFlags{}
	f.Format = "table"
	report := reports.Report{Runtime: "berlin", CheckRun: &bundle.ReportedCheckRun{
		ID: "1", Module: "keda", Version: "1.9.0", Measured: time.Now().Add(-time.Minute),
		Checks: []bundle.ReportedCheck{outcome("latency", v1beta2.CheckFailed), outcome("works", v1beta2.CheckPassed)},
	}}
	var out bytes.Buffer
	if err := f.show(&out, report); err == nil || err.Error() != "runtime berlin: latency is Failed" {
		t.Errorf("failed check: got %v", err)
	}
	for _, want := range []string{
		"module keda 1.9.0 in runtime berlin, measured 60s ago", "0.92, 0.21 before the upgrade", "above 0.5",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, &out)
		}
	}
	report.CheckRun.Checks = report.CheckRun.Checks[1:]
	if err := f.show(&out, report); err != nil {
		t.Errorf("all checks passed: got %v", err)
	}
	report.CheckRun = &bundle.ReportedCheckRun{Problem: "module keda is not installed in the runtime"}
	if err := f.show(&out, report); err == nil ||
		!strings.Contains(err.Error(), "runtime berlin: module keda is not installed in the runtime") {
		t.Errorf("check run with a problem: got %v", err)
	}
}

func TestChecksGuideShowsTheActualOutput(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/guides/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	latency := checks.CompareNumber(fleet.PromQLCheck{Max: "0.5", MaxIncreasePercent: new(int32(50))}, 0.92, "0.21")
	now := time.Now()
	report := reports.Report{Runtime: "r-17", CheckRun: &bundle.ReportedCheckRun{
		Module: "keda", Version: "1.9.0", Measured: now.Add(-2 * time.Second),
		Checks: []bundle.ReportedCheck{
			{CheckOutcome: v1beta2.CheckOutcome{
				Name: "latency", Result: v1beta2.CheckFailed, Value: latency.Value, Before: "0.21",
				Message: latency.Message,
			}},
			{CheckOutcome: v1beta2.CheckOutcome{Name: "no-failed-objects", Result: v1beta2.CheckPassed}},
		},
	}}
	var out bytes.Buffer
	drawCheckRun(&out, report, now)
	if !strings.Contains(string(page), "```text\n"+trimLines(out.String())+"```\n") {
		t.Errorf("docs/guides/checks.md does not show this output:\n%s", trimLines(out.String()))
	}
}

func trimLines(text string) string {
	return regexp.MustCompile(`(?m) +$`).ReplaceAllString(text, "")
}
