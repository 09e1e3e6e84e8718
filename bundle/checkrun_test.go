package bundle

import (
	"strings"
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestCheckRunIsParsed(t *testing.T) {
	const valid = `{"id":"1","module":"keda","checks":[{"name":"works","cel":{"expression":"true"},"interval":"30s"}]}`
	run, err := ParseCheckRun(valid)
	if err != nil || run.ID != "1" || run.Module != "keda" || run.Checks[0].Interval.Duration != 30*time.Second {
		t.Fatalf("got %+v, %v", run, err)
	}
	if run, err := ParseCheckRun(""); run != nil || err != nil {
		t.Errorf("no request: %+v, %v", run, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":          {"now", "invalid character"},
		"null":             {"null", "id"},
		"no id":            {strings.Replace(valid, `"1"`, `""`, 1), "check run: id: 0 bytes"},
		"no module":        {strings.Replace(valid, `"keda"`, `""`, 1), "check run: module: 0 bytes"},
		"no checks":        {`{"id":"1","module":"keda","checks":[]}`, "check run: checks: at least one"},
		"an unknown field": {strings.Replace(valid, `"id"`, `"repeat":true,"id"`, 1), "repeat"},
		"a job": {strings.Replace(valid, `"cel":{"expression":"true"}`, `"job":{"namespace":"a","template":{}}`, 1),
			"job: only a check that a module ships"},
		"a bad name":  {strings.Replace(valid, "works", "Works!", 1), "checks[0].name"},
		"a large one": {strings.Repeat(" ", maxCheckRunBytes+1), "at most 65536"},
	} {
		if run, err := ParseCheckRun(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v", name, run, err)
		}
	}
}

func TestSettingsLeaveTheCheckRunOutForAgentsWithoutSupport(t *testing.T) {
	settings := Settings{CheckRun: &CheckRun{ID: "1", Module: "keda", Checks: []fleet.Check{{Name: "works"}}}}
	if err := settings.Check(); err != nil {
		t.Fatal(err)
	}
	left, missing := settings.Without(func(f Feature) bool { return f != FeatureCheckRun })
	if left.CheckRun != nil || len(missing) != 1 {
		t.Errorf("got %+v, missing %v", left, missing)
	}
	settings.CheckRun.ID = ""
	if err := settings.Check(); err == nil {
		t.Error("settings with an invalid check run are valid")
	}
}

func TestReportedCheckRunHasLimits(t *testing.T) {
	result := func(name string) ReportedCheck {
		return ReportedCheck{CheckOutcome: v1beta2.CheckOutcome{Name: name, Result: v1beta2.CheckPassed}}
	}
	maybe := ReportedCheck{CheckOutcome: v1beta2.CheckOutcome{Name: "a", Result: "Maybe"}}
	for name, c := range map[string]struct {
		run  *ReportedCheckRun
		want string
	}{
		"none":            {nil, ""},
		"a usual one":     {&ReportedCheckRun{ID: "1", Checks: []ReportedCheck{result("a"), result("b")}}, ""},
		"a long id":       {&ReportedCheckRun{ID: strings.Repeat("x", MaxVersionBytes+1)}, "id or version"},
		"a long version":  {&ReportedCheckRun{Version: strings.Repeat("x", MaxVersionBytes+1)}, "id or version"},
		"a long module":   {&ReportedCheckRun{Module: strings.Repeat("x", MaxModuleNameBytes+1)}, "module of"},
		"a long problem":  {&ReportedCheckRun{Problem: strings.Repeat("x", MaxMessageBytes+1)}, "problem of 513"},
		"unsorted checks": {&ReportedCheckRun{Checks: []ReportedCheck{result("b"), result("a")}}, "sorted"},
		"another result":  {&ReportedCheckRun{Checks: []ReportedCheck{maybe}}, "want Passed"},
	} {
		err := Report{Runtime: "one", Sequence: 1, Time: time.Unix(1, 0), CheckRun: c.run}.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "checkRun: ") ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A publisher that knows the rest of a report does not record the result of a check run.
func TestCheckRunIsNotPartOfAReportsContent(t *testing.T) {
	plain := Report{Runtime: "one"}
	with := plain
	with.CheckRun = &ReportedCheckRun{ID: "1"}
	if plain.content() != with.content() || with.WithoutDetails().CheckRun != nil {
		t.Error("the result of a check run makes another content")
	}
}
