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
		t.Fatalf("got check run %+v, error %v, want the parsed text", run, err)
	}
	if run, err := ParseCheckRun(""); run != nil || err != nil {
		t.Errorf("empty text: got %+v, error %v, want neither", run, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"text that is not JSON":     {"now", "invalid character"},
		"null instead of an object": {"null", "id"},
		"missing id":                {strings.Replace(valid, `"1"`, `""`, 1), "check run: id: 0 bytes"},
		"missing module":            {strings.Replace(valid, `"keda"`, `""`, 1), "check run: module: 0 bytes"},
		"empty list of checks":      {`{"id":"1","module":"keda","checks":[]}`, "check run: checks: at least one"},
		"unknown field":             {strings.Replace(valid, `"id"`, `"repeat":true,"id"`, 1), "repeat"},
		"check with a Job": {
			strings.Replace(valid, `"cel":{"expression":"true"}`, `"job":{"namespace":"a","template":{}}`, 1),
			"job: only allowed in the checks of a module's component"},
		"invalid check name":            {strings.Replace(valid, "works", "Works!", 1), "checks[0].name"},
		"request larger than the limit": {strings.Repeat(" ", maxCheckRunBytes+1), "must be at most 65536"},
	} {
		if run, err := ParseCheckRun(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got check run %+v, error %v, want an error with %q", name, run, err, c.want)
		}
	}
}

func TestSettingsOmitTheCheckRunForAgentsWithoutSupport(t *testing.T) {
	settings := Settings{CheckRun: &CheckRun{ID: "1", Module: "keda", Checks: []fleet.Check{{Name: "works"}}}}
	if err := settings.Check(); err != nil {
		t.Fatal(err)
	}
	left, missing := settings.Without(func(f Feature) bool { return f != FeatureCheckRun })
	if left.CheckRun != nil || len(missing) != 1 {
		t.Errorf("got settings %+v and missing features %v, want no check run and one feature", left, missing)
	}
	settings.CheckRun.ID = ""
	if err := settings.Check(); err == nil {
		t.Error("settings with an invalid check run: got no error, want an error")
	}
}

func TestReportedCheckRunOverALimitIsRefused(t *testing.T) {
	result := func(name string) ReportedCheck {
		return ReportedCheck{CheckOutcome: v1beta2.CheckOutcome{Name: name, Result: v1beta2.CheckPassed}}
	}
	maybe := ReportedCheck{CheckOutcome: v1beta2.CheckOutcome{Name: "a", Result: "Maybe"}}
	for name, c := range map[string]struct {
		run  *ReportedCheckRun
		want string
	}{
		"no check run": {nil, ""},
		"valid check run": {
			&ReportedCheckRun{ID: "1", Checks: []ReportedCheck{result("a"), result("b")}}, "",
		},
		"id longer than the limit": {
			&ReportedCheckRun{ID: strings.Repeat("x", MaxVersionBytes+1)}, "id and version",
		},
		"version longer than the limit": {
			&ReportedCheckRun{Version: strings.Repeat("x", MaxVersionBytes+1)}, "id and version",
		},
		"module name longer than the limit": {
			&ReportedCheckRun{Module: strings.Repeat("x", MaxModuleNameBytes+1)}, "module is",
		},
		"problem longer than the limit": {
			&ReportedCheckRun{Problem: strings.Repeat("x", MaxMessageBytes+1)}, "problem is 513",
		},
		"unsorted results": {
			&ReportedCheckRun{Checks: []ReportedCheck{result("b"), result("a")}}, "sorted",
		},
		"unknown result": {&ReportedCheckRun{Checks: []ReportedCheck{maybe}}, "must be Passed"},
	} {
		err := Report{Runtime: "one", Sequence: 1, Time: time.Unix(1, 0), CheckRun: c.run}.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "checkRun: ") ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		}
	}
}

func TestReportContentExcludesTheCheckRun(t *testing.T) {
	plain := Report{Runtime: "one"}
	with := plain
	with.CheckRun = &ReportedCheckRun{ID: "1"}
	if plain.content() != with.content() || with.WithoutDetails().CheckRun != nil {
		t.Error("the content changed with the result of a check run, want the same content")
	}
}
