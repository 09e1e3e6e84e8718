package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestChecksOutsideTheLimitsAreRefused(t *testing.T) {
	service := fleet.ServiceReference{Namespace: "monitoring", Name: "prometheus", Port: 9090}
	at := func(name string, port int32) fleet.ServiceReference {
		return fleet.ServiceReference{Namespace: "a", Name: name, Port: port}
	}
	files := at("b", 1)
	files.Scheme = "file"
	cel := &fleet.CELCheck{Expression: "true"}
	for name, c := range map[string]struct {
		checks  []fleet.Check
		shipped bool
		want    string
	}{
		"check of a RolloutPolicy":                   {[]fleet.Check{{Name: "ready", CEL: cel}}, false, ""},
		"reference to a check that the module ships": {[]fleet.Check{{Name: "smoke"}}, false, ""},
		"shipped check with a Job": {
			[]fleet.Check{{Name: "smoke", Job: &fleet.JobCheck{Namespace: "a"}}},
			true, "",
		},
		"more checks than the limit": {make([]fleet.Check, MaxChecks+1), false, "11 checks, must be at most 10"},
		"name with upper-case letters": {
			[]fleet.Check{{Name: "Ready", CEL: cel}},
			false, "checks[0].name",
		},
		"duplicate name": {
			[]fleet.Check{{Name: "a", CEL: cel}, {Name: "a", CEL: cel}},
			false, "duplicate a",
		},
		"check with two kinds": {
			[]fleet.Check{{Name: "a", CEL: cel, HTTP: &fleet.HTTPCheck{Service: service}}},
			false, "2 of cel, http, promql and job are set",
		},
		"shipped check without a kind": {
			[]fleet.Check{{Name: "a"}},
			true, "one of cel, http, promql and job is required",
		},
		"Job in a RolloutPolicy": {
			[]fleet.Check{{Name: "a", Job: &fleet.JobCheck{Namespace: "a"}}},
			false, "only allowed in the checks of a module's component",
		},
		"check that reads Secrets": {
			[]fleet.Check{{Name: "a", CEL: &fleet.CELCheck{APIVersion: "v1", Kind: "Secret", Expression: "true"}}},
			false, "cel.kind: a check cannot read Secrets",
		},
		"shipped check that reads Secrets": {
			[]fleet.Check{{Name: "a", CEL: &fleet.CELCheck{APIVersion: "/v1", Kind: "Secret", Expression: "true"}}},
			true, "cel.kind: a check cannot read Secrets",
		},
		"check that reads Secrets by the kind in lower case": {
			[]fleet.Check{{Name: "a", CEL: &fleet.CELCheck{APIVersion: "v1", Kind: "secret", Expression: "true"}}},
			true, "cel.kind: a check cannot read Secrets",
		},
		"custom resource of kind Secret": {
			[]fleet.Check{{
				Name: "a", CEL: &fleet.CELCheck{APIVersion: "example.com/v1", Kind: "Secret", Expression: "true"},
			}},
			false, "",
		},
		"invalid API version": {
			[]fleet.Check{{Name: "a", CEL: &fleet.CELCheck{APIVersion: "a/b/c", Kind: "Secret", Expression: "true"}}},
			false, "cel.apiVersion",
		},
		"interval below the minimum": {
			[]fleet.Check{{Name: "a", CEL: cel, Interval: metav1.Duration{Duration: time.Second}}},
			false, "interval: 1s, must be at least 10s",
		},
		"timeout above the maximum": {
			[]fleet.Check{{Name: "a", CEL: cel, Timeout: metav1.Duration{Duration: time.Hour}}},
			false, "timeout: 1h0m0s, must be at most 5m0s",
		},
		"threshold above the maximum": {
			[]fleet.Check{{Name: "a", CEL: cel, FailureThreshold: 101}},
			false, "failureThreshold: 101",
		},
		"expression longer than the limit": {
			[]fleet.Check{{Name: "a", CEL: &fleet.CELCheck{Expression: strings.Repeat("a", 3000)}}},
			false, "cel.expression: 3000 bytes",
		},
		"missing query": {
			[]fleet.Check{{Name: "a", PromQL: &fleet.PromQLCheck{Service: service, Max: "1"}}},
			false, "promql.query is required",
		},
		"query without a bound": {
			[]fleet.Check{{Name: "a", PromQL: &fleet.PromQLCheck{Service: service, Query: "up"}}},
			false, "one of max, min and maxIncreasePercent",
		},
		"bound that is not a number": {
			[]fleet.Check{{Name: "a", PromQL: &fleet.PromQLCheck{Service: service, Query: "up", Max: "many"}}},
			false, "promql.max",
		},
		"bound NaN in a shipped check": {
			[]fleet.Check{{Name: "a", PromQL: &fleet.PromQLCheck{Service: service, Query: "up", Max: "NaN"}}},
			true, `promql.max: "NaN" is not a decimal number`,
		},
		"infinite bound in a shipped check": {
			[]fleet.Check{{Name: "a", PromQL: &fleet.PromQLCheck{Service: service, Query: "up", Min: "-Inf"}}},
			true, "promql.min",
		},
		"decimal bounds": {
			[]fleet.Check{{Name: "a", PromQL: &fleet.PromQLCheck{Service: service, Query: "up", Min: "-1", Max: "0.25"}}},
			true, "",
		},
		"negative increase in a shipped check": {
			[]fleet.Check{{
				Name: "a", PromQL: &fleet.PromQLCheck{Service: service, Query: "up", MaxIncreasePercent: new(int32(-5))},
			}},
			true, "promql.maxIncreasePercent: -5",
		},
		"path of a query without a slash": {
			[]fleet.Check{{
				Name: "a", PromQL: &fleet.PromQLCheck{Service: service, Query: "up", Max: "1", Path: "select"},
			}},
			true, "promql.path",
		},
		"path of a request without a slash": {
			[]fleet.Check{{Name: "a", HTTP: &fleet.HTTPCheck{Service: service, Path: "healthz"}}},
			true, "http.path",
		},
		"unknown status": {
			[]fleet.Check{{Name: "a", HTTP: &fleet.HTTPCheck{Service: service, Status: 700}}},
			true, "http.status: 700",
		},
		"negative latency": {
			[]fleet.Check{{
				Name: "a", HTTP: &fleet.HTTPCheck{Service: service, MaxLatency: metav1.Duration{Duration: -time.Second}},
			}},
			true, "http.maxLatency: -1s",
		},
		"Service name with a host": {
			[]fleet.Check{{Name: "a", HTTP: &fleet.HTTPCheck{Service: at("evil.example/", 80)}}},
			false, "http.service.name",
		},
		"Service with port 0": {
			[]fleet.Check{{Name: "a", HTTP: &fleet.HTTPCheck{Service: at("b", 0)}}},
			false, "http.service.port",
		},
		"Service with an unsupported scheme": {
			[]fleet.Check{{Name: "a", HTTP: &fleet.HTTPCheck{Service: files}}},
			false, "http.service.scheme",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateChecks(c.checks, c.shipped)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestReportsWithInvalidCheckResultsAreRefused(t *testing.T) {
	result := func(name string, result v1beta2.CheckResult) ReportedCheck {
		return ReportedCheck{CheckOutcome: v1beta2.CheckOutcome{Name: name, Result: result}}
	}
	for want, checks := range map[string][]ReportedCheck{
		"":                                {result("a", v1beta2.CheckPassed), result("b", v1beta2.CheckInconclusive)},
		"names must be sorted and unique": {result("b", v1beta2.CheckPassed), result("a", v1beta2.CheckPassed)},
		"must be Passed, Failed":          {result("a", "Fine")},
		"is too long": {
			{
				CheckOutcome: v1beta2.CheckOutcome{
					Name: "a", Result: v1beta2.CheckFailed, Message: strings.Repeat("x", 257),
				},
			},
		},
		"checks: 11 results, must be at most 1": make([]ReportedCheck, MaxChecks+1),
	} {
		err := (Report{Time: time.Now(), Modules: []ReportedModule{{Name: "keda", Checks: checks}}}).Check()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func TestReportContentExcludesMeasurements(t *testing.T) {
	report := func(result v1beta2.CheckResult, value string, passes int32) Report {
		outcome := v1beta2.CheckOutcome{Name: "latency", Result: result, Value: value}
		checks := []ReportedCheck{{CheckOutcome: outcome, Passes: passes}}
		return Report{Modules: []ReportedModule{{Name: "keda", Checks: checks}}}
	}
	first := report(v1beta2.CheckPassed, "0.2", 3)
	require.Equal(t, first.content(), report(v1beta2.CheckPassed, "0.3", 4).content())
	require.NotEqual(t, first.content(), report(v1beta2.CheckFailed, "0.2", 3).content())
	require.Equal(t, int32(3), first.Modules[0].Checks[0].Passes, "the report itself is unchanged")

	measured := func(unknowns int32, message string) Report {
		r := report(v1beta2.CheckInconclusive, "", 0)
		r.Modules[0].Checks[0].Unknowns, r.Modules[0].Checks[0].Message = unknowns, message
		return r
	}
	require.NotEqual(t, measured(0, "").content(), measured(1, "no data").content(), "first problem")
	require.Equal(t, measured(1, "no data").content(), measured(2, "timeout").content(), "next problem")
}
