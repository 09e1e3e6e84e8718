package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestDetailsBeyondALimitAreRefused(t *testing.T) {
	long := strings.Repeat("x", MaxLogBytes+1)
	line := strings.Repeat("x", MaxDetailTextBytes+1)
	for name, c := range map[string]struct {
		details ModuleDetails
		want    string
	}{
		"nothing": {ModuleDetails{}, ""},
		"a usual excerpt": {ModuleDetails{Failing: []FailingObject{{DetailedObject: DetailedObject{Kind: "Pod",
			Name: "a"}, Logs: []ContainerLog{{Container: "a", Text: long[1:]}}}}}, ""},
		"many failing":      {ModuleDetails{Failing: make([]FailingObject, MaxFailingObjects+1)}, "failing objects"},
		"many objects":      {ModuleDetails{Objects: make([]DetailedObject, MaxDetailedObjects+1)}, "201 objects"},
		"a negative number": {ModuleDetails{LeftOut: -1}, "objects"},
		"a long problem":    {ModuleDetails{Problem: strings.Repeat("x", MaxMessageBytes+1)}, "problem"},
		"a long name": {ModuleDetails{Objects: []DetailedObject{{Name: strings.Repeat("x",
			MaxModuleNameBytes+1)}}}, "objects[0]: name"},
		"a long message": {ModuleDetails{Objects: []DetailedObject{{Message: line}}}, "objects[0].message"},
		"a long event":   {ModuleDetails{Failing: []FailingObject{{Events: []string{line}}}}, "failing[0]: line"},
		"many conditions": {ModuleDetails{Failing: []FailingObject{{Conditions: make([]string, MaxDetailLines+1)}}},
			"7 conditions"},
		"many logs": {ModuleDetails{Failing: []FailingObject{{Logs: make([]ContainerLog, MaxDetailLogs+1)}}},
			"4 logs"},
		"a long log": {ModuleDetails{Failing: []FailingObject{{Logs: []ContainerLog{{Text: long}}}}},
			"failing[0].logs[0]"},
		"a long state": {
			ModuleDetails{
				Failing: []FailingObject{
					{DetailedObject: DetailedObject{State: strings.Repeat("x", MaxModuleNameBytes+1)}},
				},
			}, "failing[0]: name",
		},
	} {
		r := Report{Runtime: "one", Sequence: 1, Time: time.Unix(1, 0), Modules: []ReportedModule{{Name: "keda",
			State: v1beta2.StateError, Details: &c.details}}}
		err := r.checkModules()
		if c.want == "" && err != nil || c.want != "" && (err == nil ||
			!strings.Contains(err.Error(), "modules[0].details.") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Details change often and no decision depends on them. A report that differs only in its details has the same content,
// so a publisher does not record it again.
func TestDetailsAreNotPartOfAReportsContent(t *testing.T) {
	r := Report{Runtime: "one", Modules: []ReportedModule{{Name: "keda"}, {Name: "nats"}}}
	with := r
	with.Modules = []ReportedModule{{Name: "keda", Details: &ModuleDetails{Taken: time.Unix(1, 0)}}, {Name: "nats"}}
	if r.content() != with.content() {
		t.Error("details make another content")
	}
	if without := with.WithoutDetails(); without.Modules[0].Details != nil || with.Modules[0].Details == nil {
		t.Errorf("got %+v from %+v", without.Modules, with.Modules)
	}
}

func TestSettingsRequestKnownDetailsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		details []Detail
		valid   bool
	}{
		"none": {nil, true}, "all": {AllDetails(), true}, "an unknown one": {[]Detail{"secrets"}, false},
		"twice": {[]Detail{DetailLogs, DetailLogs}, false}, "unsorted": {[]Detail{DetailLogs, DetailEvents}, false},
	} {
		if err := (Settings{Details: c.details}).Check(); (err == nil) != c.valid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	left, missing := Settings{Details: AllDetails()}.Without(func(f Feature) bool { return f != FeatureDetails })
	if left.Details != nil || len(missing) != 1 {
		t.Errorf("an agent without the feature gets %v, lacks %v", left.Details, missing)
	}
}
