package report

import (
	"fmt"
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
	facts := crowd(30, 0, 0)
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

func TestDetailsAreDroppedBeforeModules(t *testing.T) {
	facts := crowd(500, 0, 0)
	facts.Details = map[string]*bundle.ModuleDetails{facts.Manifests[0].Name: largest(true)}
	r := New("one", facts)
	if len(r.Modules) != 500 || r.Modules[0].Details != nil || r.Truncated == nil || !r.Truncated.Details {
		t.Errorf("got %d modules and omitted parts %+v, want 500 modules without details", len(r.Modules), r.Truncated)
	}
}
