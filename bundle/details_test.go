package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestModuleDetailsOverALimitAreRefused(t *testing.T) {
	long := strings.Repeat("x", MaxLogBytes+1)
	line := strings.Repeat("x", MaxDetailTextBytes+1)
	for name, c := range map[string]struct {
		details ModuleDetails
		want    string
	}{
		"no details": {ModuleDetails{}, ""},
		"valid details": {ModuleDetails{Failing: []FailingObject{{DetailedObject: DetailedObject{Kind: "Pod",
			Name: "a"}, Logs: []ContainerLog{{Container: "a", Text: long[1:]}}}}}, ""},
		"more failing objects than the limit": {
			ModuleDetails{Failing: make([]FailingObject, MaxFailingObjects+1)}, "failing: 7 objects",
		},
		"more objects than the limit": {
			ModuleDetails{Objects: make([]DetailedObject, MaxDetailedObjects+1)}, "201 objects",
		},
		"negative number of omitted objects": {ModuleDetails{LeftOut: -1}, "leftOut: -1"},
		"problem longer than the limit": {
			ModuleDetails{Problem: strings.Repeat("x", MaxMessageBytes+1)}, "problem",
		},
		"object name longer than the limit": {ModuleDetails{Objects: []DetailedObject{{Name: strings.Repeat("x",
			MaxModuleNameBytes+1)}}}, "objects[0]: one of the fields group, kind, namespace, name and state"},
		"message longer than the limit": {
			ModuleDetails{Objects: []DetailedObject{{Message: line}}}, "objects[0].message",
		},
		"Event longer than the limit": {
			ModuleDetails{Failing: []FailingObject{{Events: []string{line}}}}, "failing[0]: an entry of conditions or events",
		},
		"more conditions than the limit": {
			ModuleDetails{Failing: []FailingObject{{Conditions: make([]string, MaxDetailLines+1)}}},
			"7 conditions"},
		"more logs than the limit": {
			ModuleDetails{Failing: []FailingObject{{Logs: make([]ContainerLog, MaxDetailLogs+1)}}},
			"4 logs"},
		"log longer than the limit": {ModuleDetails{Failing: []FailingObject{{Logs: []ContainerLog{{Text: long}}}}},
			"failing[0].logs[0]"},
		"state longer than the limit": {
			ModuleDetails{
				Failing: []FailingObject{
					{DetailedObject: DetailedObject{State: strings.Repeat("x", MaxModuleNameBytes+1)}},
				},
			}, "failing[0]: one of the fields group, kind, namespace, name and state",
		},
	} {
		r := Report{Runtime: "one", Sequence: 1, Time: time.Unix(1, 0), Modules: []ReportedModule{{Name: "keda",
			State: v1beta2.StateError, Details: &c.details}}}
		err := r.checkModules()
		if c.want == "" && err != nil || c.want != "" && (err == nil ||
			!strings.Contains(err.Error(), "modules[0].details.") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		}
	}
}

func TestReportContentExcludesDetails(t *testing.T) {
	r := Report{Runtime: "one", Modules: []ReportedModule{{Name: "keda"}, {Name: "nats"}}}
	with := r
	with.Modules = []ReportedModule{{Name: "keda", Details: &ModuleDetails{Taken: time.Unix(1, 0)}}, {Name: "nats"}}
	if r.content() != with.content() {
		t.Error("the content changed with the details, want the same content")
	}
	if without := with.WithoutDetails(); without.Modules[0].Details != nil || with.Modules[0].Details == nil {
		t.Errorf("got modules %+v from %+v, want a copy without details", without.Modules, with.Modules)
	}
}

func TestSettingsWithInvalidDetailsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		details []Detail
		valid   bool
	}{
		"no details requested": {
			nil, true}, "all details": {AllDetails(), true}, "unknown detail": {[]Detail{"secrets"}, false},
		"duplicate detail": {
			[]Detail{DetailLogs, DetailLogs}, false}, "unsorted details": {[]Detail{DetailLogs, DetailEvents}, false},
	} {
		if err := (Settings{Details: c.details}).Check(); (err == nil) != c.valid {
			t.Errorf("%s: got error %v, want accepted: %t", name, err, c.valid)
		}
	}
	left, missing := Settings{Details: AllDetails()}.Without(func(f Feature) bool { return f != FeatureDetails })
	if left.Details != nil || len(missing) != 1 {
		t.Errorf("agent without the feature: got details %v and missing features %v, want only report-details",
			left.Details, missing)
	}
}
