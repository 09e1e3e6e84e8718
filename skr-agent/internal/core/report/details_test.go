package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func largest(failing bool) *bundle.ModuleDetails {
	d := &bundle.ModuleDetails{}
	for i := range bundle.MaxDetailedObjects {
		d.Objects = append(d.Objects, bundle.DetailedObject{Kind: "ConfigMap", Name: fmt.Sprint(i, strings.Repeat("x",
			60)), Namespace: "kyma-system"})
	}
	for i := range bundle.MaxFailingObjects {
		if failing {
			d.Failing = append(d.Failing, bundle.FailingObject{
				DetailedObject: bundle.DetailedObject{Kind: "Pod",
					Name: fmt.Sprint(i)}, Logs: []bundle.ContainerLog{{Text: strings.Repeat("x", bundle.MaxLogBytes)}},
			})
		}
	}
	return d
}

func TestDetailsOfMostUrgentModulesAreKept(t *testing.T) {
	facts := manyModules(30, 0, 0)
	facts.Details = map[string]*bundle.ModuleDetails{}
	for i := range facts.Manifests {
		m := &facts.Manifests[i]
		if i != 29 {
			m.Status.State = v1beta2.StateReady
		}
		facts.Details[m.Name] = largest(i == 29)
	}
	r := New("one", facts)
	last := r.Modules[29].Details
	if last == nil || len(last.Failing) != bundle.MaxFailingObjects {
		t.Fatalf("got details %+v of the failing module, want all failing objects", last)
	}
	with, bytes := 0, 0
	for _, m := range r.Modules {
		if m.Details == nil {
			continue
		}
		bytes += detailBytes(*m.Details)
		if len(m.Details.Objects) > 0 {
			with++
		}
	}
	if with == 0 || with == 30 || bytes > maxDetailBytes || r.Truncated == nil || !r.Truncated.Details ||
		r.Truncated.Messages {
		t.Errorf("got %d of 30 modules with objects, %d bytes of details and omitted parts %+v, want some of each",
			with, bytes, r.Truncated)
	}
	if len(facts.Details[facts.Manifests[0].Name].Objects) != bundle.MaxDetailedObjects {
		t.Error("New must not change the facts")
	}
}

func TestReportDropsDetailsBeforeModules(t *testing.T) {
	facts := manyModules(500, 0, 0)
	facts.Details = map[string]*bundle.ModuleDetails{facts.Manifests[0].Name: largest(true)}
	r := New("one", facts)
	if len(r.Modules) != 500 || r.Modules[0].Details != nil || r.Truncated == nil || !r.Truncated.Details {
		t.Errorf("got %d modules and omitted parts %+v, want 500 modules without details", len(r.Modules), r.Truncated)
	}
}

// The author of a module can choose the names, logs and conditions of its objects.
func TestModuleCannotDisplaceDetailsOfOtherModules(t *testing.T) {
	for name, hostile := range map[string]*bundle.ModuleDetails{
		"failing objects with long logs": largest(true),
		"objects with long names":        largest(false),
		"logs that JSON encodes as escape sequences": {Failing: slices.Repeat([]bundle.FailingObject{{
			Logs: slices.Repeat([]bundle.ContainerLog{{Text: strings.Repeat("<", bundle.MaxLogBytes)}}, bundle.MaxDetailLogs),
		}}, bundle.MaxFailingObjects)},
	} {
		t.Run(name, func(t *testing.T) {
			facts := manyModules(bundle.MaxDetailedModules, 0, 0)
			facts.Details = map[string]*bundle.ModuleDetails{}
			for i := range facts.Manifests {
				m := &facts.Manifests[i]
				m.Status.State = v1beta2.StateError
				facts.Details[m.Name] = hostile
				for j := range hostile.Failing {
					hostile.Failing[j].Conditions = slices.Repeat([]string{strings.Repeat("y", bundle.MaxDetailTextBytes)},
						bundle.MaxDetailLines)
					hostile.Failing[j].Events = hostile.Failing[j].Conditions
				}
			}
			last := facts.Manifests[len(facts.Manifests)-1].Name
			facts.Details[last] = &bundle.ModuleDetails{
				Failing: []bundle.FailingObject{{Logs: []bundle.ContainerLog{{Text: strings.Repeat("z", bundle.MaxLogBytes)}}}},
				Objects: []bundle.DetailedObject{{Kind: "Pod", Name: "a"}},
			}
			r := New("one", facts)
			bytes := 0
			for _, m := range r.Modules {
				if m.Details == nil || len(m.Details.Failing) == 0 && len(hostile.Failing) > 0 {
					t.Errorf("module %s: got details %+v, want some", m.Name, m.Details)
					continue
				}
				bytes += detailBytes(*m.Details)
			}
			got := r.Modules[len(r.Modules)-1].Details
			if got == nil || len(got.Failing) != 1 || len(got.Failing[0].Logs) != 1 || bytes > maxDetailBytes {
				t.Errorf("got details %+v of the last module and %d bytes of details, want its log", got, bytes)
			}
		})
	}
}
