package report

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestReportHasTakeoverProgress(t *testing.T) {
	in := digest.FromString("the bundle in force")
	inheriting := []bundle.Manifest{
		{Name: "keda", Module: "keda", Inherited: []bundle.ObjectRef{{Version: "v1", Kind: "ConfigMap", Name: "a"}}},
		{Name: "plain", Module: "plain"},
	}
	manifest := func(annotation string, condition metav1.ConditionStatus) []v1beta2.Manifest {
		m := v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Name: "keda"}}
		if annotation != "" {
			m.Annotations = map[string]string{v1beta2.AnnotationInherited: annotation}
		}
		m.Status.State = v1beta2.StateProcessing
		m.Status.Conditions = []metav1.Condition{
			{Type: v1beta2.ConditionInstallation, Status: condition},
			{Type: v1beta2.ConditionReady, Message: "waits for a pod"},
		}
		return []v1beta2.Manifest{m}
	}
	leftover := bundle.ObjectRef{Version: "v1", Kind: "Service", Namespace: "kyma-system", Name: "skr-webhook"}
	for name, c := range map[string]struct {
		phase   bundle.TakeoverPhase
		facts   Facts
		done    bool
		adopted []string
		removed int
		message string
	}{
		"a module that is not there yet": {
			bundle.TakeoverAdopt, Facts{}, false, nil, 0,
			"module keda is not adopted: Manifest keda: it is not there yet",
		},
		"one without its list of inherited objects": {
			bundle.TakeoverAdopt, Facts{Manifests: manifest("", metav1.ConditionTrue)}, false, nil, 0,
			"Manifest keda: waits for a pod",
		},
		"one that was not applied whole": {
			bundle.TakeoverAdopt, Facts{Manifests: manifest("x", metav1.ConditionFalse)}, false, nil, 0,
			"Manifest keda: waits for a pod",
		},
		"one whose content is not at hand": {
			bundle.TakeoverAdopt, Facts{Unstaged: map[string]error{"keda": errors.New("no such blob")}}, false, nil, 0,
			"Manifest keda: no such blob",
		},
		"one that is adopted, ready or not": {
			bundle.TakeoverAdopt, Facts{Manifests: manifest("x", metav1.ConditionTrue)}, true, []string{"keda"}, 0, "",
		},
		"leftovers that were removed": {
			bundle.TakeoverClean, Facts{PhaseDone: in.String(), Removed: []bundle.ObjectRef{leftover}}, true, nil, 1,
			"",
		},
		"leftovers of another bundle's phase": {
			bundle.TakeoverClean, Facts{PhaseDone: "sha256:another"}, false, nil, 0, "waiting until it is done",
		},
		"leftovers that may not be removed": {
			bundle.TakeoverClean, Facts{Trouble: &bundle.ReportedTrouble{Message: "is forbidden"}}, false, nil, 0,
			"is forbidden",
		},
		"modules that are being given back": {
			bundle.TakeoverRelease, Facts{Manifests: manifest("x", metav1.ConditionTrue)}, false, nil, 0,
			"waiting until Manifest keda is gone and 0 others",
		},
		"a runtime that is given back": {
			bundle.TakeoverRelease, Facts{PhaseDone: in.String()}, true, nil, 0, "",
		},
		"a runtime without a takeover, with the rest": {
			"", Facts{PhaseDone: in.String(), Removed: []bundle.ObjectRef{leftover}}, false, nil, 0, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.Bundle = &bundle.Bundle{State: bundle.DesiredState{Takeover: c.phase, Manifests: inheriting}}
			c.facts.Bundle.Digest = in
			got := New("one", c.facts).Takeover
			if c.phase == "" {
				if got != nil {
					t.Fatalf("reported %+v", got)
				}
				return
			}
			if got == nil || got.Phase != c.phase || got.Done != c.done || !slices.Equal(got.Adopted, c.adopted) ||
				len(got.Removed) != c.removed ||
				!strings.Contains(got.Message, c.message) ||
				c.done && got.Message != "" {
				t.Errorf("reported %+v", got)
			}
		})
	}
}

func TestReleasedModulesAreReportedWithTheirVersions(t *testing.T) {
	facts := Facts{
		Bundle:    &bundle.Bundle{State: bundle.DesiredState{Takeover: bundle.TakeoverRelease}},
		Unmanaged: map[string]string{"keda": "1.7.0"},
	}
	if got := Modules(facts); len(got) != 1 || got[0].Name != "keda" || got[0].Version != "1.7.0" ||
		got[0].State != v1beta2.StateUnmanaged {
		t.Errorf("a released module without a Manifest is reported as %+v", got)
	}
	facts.Manifests = []v1beta2.Manifest{
		{ObjectMeta: metav1.ObjectMeta{Name: "keda"}, Spec: v1beta2.ManifestSpec{Version: "1.7.0"}},
	}
	if got := Modules(facts); len(got) != 1 || got[0].Manifest == nil {
		t.Errorf("a module with a Manifest is reported as %+v", got)
	}
	facts.Bundle.State.Takeover, facts.Manifests = bundle.TakeoverAdopt, nil
	if got := Modules(facts); len(got) != 0 {
		t.Errorf("an unmanaged module is reported as %+v", got)
	}
}

func TestConditionsOfLifecycleManagerAreRemoved(t *testing.T) {
	before := v1beta2.KymaStatus{
		Conditions: []metav1.Condition{{Type: "CRDsSync"}, {Type: "SKRImagePullSecretSync"}, {Type: "SomebodyElses"}},
	}
	for phase, want := range map[bundle.TakeoverPhase]int{bundle.TakeoverAdopt: 3, bundle.TakeoverClean: 1} {
		facts := Facts{Bundle: &bundle.Bundle{State: bundle.DesiredState{Takeover: phase}}, Kyma: &v1beta2.Kyma{}}
		after := KymaStatus(before, facts, time.Unix(0, 0))
		left := 0
		for _, c := range before.Conditions {
			if meta.FindStatusCondition(after.Conditions, c.Type) != nil {
				left++
			}
		}
		if left != want {
			t.Errorf("%s: %d of them are left, want %d", phase, left, want)
		}
	}
}
