package report

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// A module whose upgrade waits keeps its version and state. Its message explains the wait.
func TestWaitingUpgradeIsInReportAndStatus(t *testing.T) {
	const why = "the upgrade to version 1.1.0 requires downtime and waits"
	for name, c := range map[string]struct {
		state   v1beta2.State
		message string
		want    string
	}{
		"message of a ready module is the reason for waiting": {v1beta2.StateReady, "", why},
		"message of a failed module begins with its error":    {v1beta2.StateError, "crashes", "crashes; " + why},
		"long message is shortened": {
			v1beta2.StateError, strings.Repeat("x", bundle.MaxMessageBytes),
			strings.Repeat("x", bundle.MaxMessageBytes),
		},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := v1beta2.Manifest{
				ObjectMeta: metav1.ObjectMeta{Name: "keda"},
				Spec:       v1beta2.ManifestSpec{Version: "1.0.0"},
			}
			manifest.Status.State = c.state
			manifest.Status.Conditions = []metav1.Condition{{Type: v1beta2.ConditionReady, Message: c.message}}
			facts := Facts{
				Bundle: &bundle.Bundle{
					State: bundle.DesiredState{
						Manifests: []bundle.Manifest{
							{Name: "keda", Module: "keda", Version: "1.1.0", Template: "keda-1.1.0"},
						},
					},
				},
				WaitingUpgrades: map[string]string{"keda": why}, Kyma: &v1beta2.Kyma{}, Manifests: []v1beta2.Manifest{manifest},
			}
			m := New("one", facts).Modules[0]
			if !m.Maintenance || m.Version != "1.0.0" || m.State != c.state || m.Message != c.want {
				t.Errorf("got module %+v, want version 1.0.0 with message %q", m, c.want)
			}
			status := KymaStatus(v1beta2.KymaStatus{}, facts, time.Unix(0, 0))
			s := status.Modules[0]
			if !s.Maintenance || s.Version != "1.0.0" || s.State != c.state || s.Message != c.want ||
				s.Template != nil ||
				status.State != c.state {
				t.Errorf("got module status %+v and state %s of the Kyma, want version 1.0.0 with message %q", s,
					status.State, c.want)
			}
			facts.WaitingUpgrades = nil
			if m := New("one", facts).Modules[0]; m.Maintenance {
				t.Errorf("got module %+v, want no waiting upgrade", m)
			}
			if s := KymaStatus(status, facts, time.Unix(0, 0)).Modules[0]; s.Maintenance || s.Template == nil {
				t.Errorf("got module status %+v, want no waiting upgrade", s)
			}
		})
	}
}

func TestModuleThatBecomesManagedKeepsItsVersion(t *testing.T) {
	const why = "the upgrade to version 1.1.0 requires downtime and waits"
	facts := Facts{
		Bundle: &bundle.Bundle{
			State: bundle.DesiredState{
				Manifests: []bundle.Manifest{{Name: "keda", Module: "keda", Version: "1.1.0", Template: "keda-1.1.0"}},
			},
		},
		WaitingUpgrades: map[string]string{"keda": why}, Unmanaged: map[string]string{"keda": "1.0.0"}, Kyma: &v1beta2.Kyma{},
	}
	if m := New("one", facts).Modules; len(m) != 1 || !m[0].Maintenance || m[0].Version != "1.0.0" ||
		m[0].State != v1beta2.StateUnmanaged ||
		m[0].Message != why {
		t.Errorf("got modules %+v, want unmanaged keda 1.0.0 with a waiting upgrade", m)
	}
	if s := KymaStatus(v1beta2.KymaStatus{}, facts, time.Unix(0, 0)).Modules; len(s) != 1 || !s[0].Maintenance ||
		s[0].Version != "1.0.0" ||
		s[0].State != v1beta2.StateUnmanaged ||
		s[0].Message != why {
		t.Errorf("got module statuses %+v, want unmanaged keda 1.0.0 with a waiting upgrade", s)
	}
	facts.WaitingUpgrades, facts.Templates = nil, map[string]int64{"keda-1.1.0": 5}
	want := v1beta2.PartialMeta{Name: "keda-1.1.0", Namespace: v1beta2.RuntimeNamespace, Generation: 5}
	if s := KymaStatus(v1beta2.KymaStatus{}, facts, time.Unix(0, 0)).Modules; s[0].Template == nil ||
		s[0].Template.PartialMeta != want {
		t.Errorf("got template %+v, want %+v", s[0].Template, want)
	}
	facts.Bundle.State.Manifests[0].Unmanaged = true
	facts.Manifests = []v1beta2.Manifest{{ObjectMeta: metav1.ObjectMeta{Name: "keda"}}}
	if s := KymaStatus(v1beta2.KymaStatus{}, facts, time.Unix(0, 0)).Modules; len(s) != 1 || s[0].Version != "1.0.0" ||
		s[0].State != v1beta2.StateUnmanaged ||
		s[0].Template != nil ||
		s[0].Manifest != nil ||
		s[0].Resource != nil {
		t.Errorf("got module statuses %+v, want unmanaged keda 1.0.0 without objects", s)
	}
}

func TestStatusHidesOnlyMandatoryModules(t *testing.T) {
	label := map[string]string{v1beta2.LabelMandatoryModule: v1beta2.True}
	facts := Facts{
		Bundle: &bundle.Bundle{State: bundle.DesiredState{Manifests: []bundle.Manifest{
			{Name: "watcher", Module: "watcher", Labels: label}, {Name: "formerly", Module: "formerly"},
		}}},
		Kyma: &v1beta2.Kyma{},
	}
	for _, name := range []string{"watcher", "formerly", "leaving"} {
		facts.Manifests = append(facts.Manifests, v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: label}})
	}
	if s := KymaStatus(v1beta2.KymaStatus{}, facts, time.Unix(0, 0)).Modules; len(s) != 1 || s[0].Name != "formerly" {
		t.Errorf("got module statuses %+v, want only the formerly mandatory module", s)
	}
}

func TestModuleWithMissingManifestIsReported(t *testing.T) {
	facts := Facts{Kyma: &v1beta2.Kyma{}, Bundle: &bundle.Bundle{State: bundle.DesiredState{Manifests: []bundle.Manifest{
		{Name: "keda", Module: "keda", Channel: "fast", Version: "1.1.0"},
		{Name: "mailer", Module: "mailer", Version: "2.0.0", Unmanaged: true},
	}}}}
	want := []bundle.ReportedModule{{
		Name: "keda", Channel: "fast", Wanted: "1.1.0", State: v1beta2.StateProcessing,
		Message: "waiting until Manifest keda exists",
	}}
	if got := New("one", facts).Modules; !reflect.DeepEqual(got, want) {
		t.Errorf("got modules %+v, want %+v", got, want)
	}
	facts.Bundle.State.Takeover = bundle.TakeoverClean
	if got := New("one", facts).Modules; len(got) > 0 {
		t.Errorf("during a takeover: got modules %+v, want none", got)
	}
}

func TestRemovedModuleIsReportedUntilItsManifestIsRestored(t *testing.T) {
	facts := Facts{Kyma: &v1beta2.Kyma{}, Bundle: &bundle.Bundle{}, UnremovedModules: []string{"keda"}}
	got := New("one", facts).Modules
	if len(got) != 1 || got[0].Name != "keda" || got[0].State != v1beta2.StateDeleting {
		t.Errorf("got modules %+v, want keda in state Deleting", got)
	}
	facts.Manifests = []v1beta2.Manifest{{ObjectMeta: metav1.ObjectMeta{Name: "keda"}}}
	if got := New("one", facts).Modules; len(got) != 1 {
		t.Errorf("with the Manifest: got modules %+v, want keda once", got)
	}
}

func TestDefaultCRHasNamespaceOnlyIfNamespaced(t *testing.T) {
	of := func(namespace string) v1beta2.Manifest {
		cr := &unstructured.Unstructured{}
		cr.SetAPIVersion("operator.kyma-project.io/v1alpha1")
		cr.SetKind("APIGateway")
		cr.SetName("default")
		cr.SetNamespace(namespace)
		return v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{Name: "api-gateway"}, Spec: v1beta2.ManifestSpec{Resource: cr},
		}
	}
	for name, c := range map[string]struct {
		written       string
		clusterScoped bool
		want          string
	}{
		"namespaced kind without a namespace":      {"", false, v1beta2.RuntimeNamespace},
		"namespaced kind with a namespace":         {"elsewhere", false, "elsewhere"},
		"cluster-scoped kind":                      {"", true, ""},
		"cluster-scoped kind with a namespace set": {"kyma-system", true, ""},
	} {
		facts := Facts{
			Manifests:     []v1beta2.Manifest{of(c.written)},
			ClusterScoped: map[string]bool{"api-gateway": c.clusterScoped},
		}
		if got := modules(facts)[0].Resource.PartialMeta.Namespace; got != c.want {
			t.Errorf("%s: got namespace %q, want %q", name, got, c.want)
		}
	}
}

func TestStatusOfOlderSpecIsNotReported(t *testing.T) {
	for state, want := range map[v1beta2.State]v1beta2.State{
		v1beta2.StateReady: v1beta2.StateProcessing, v1beta2.StateError: v1beta2.StateProcessing,
		v1beta2.StateWarning: v1beta2.StateProcessing,
	} {
		manifest := v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{Name: "keda", Generation: 2},
			Spec:       v1beta2.ManifestSpec{Version: "1.1.0"},
		}
		manifest.Status.State = state
		manifest.Status.Conditions = []metav1.Condition{
			{Type: v1beta2.ConditionReady, Message: "of old", ObservedGeneration: 1},
		}
		if m := modules(Facts{Manifests: []v1beta2.Manifest{manifest}})[0]; m.State != want || m.Message != "" {
			t.Errorf("got %+v for state %s of an older spec, want state %s without a message", m, state, want)
		}
		manifest.Status.Conditions[0].ObservedGeneration = 2
		if m := modules(Facts{Manifests: []v1beta2.Manifest{manifest}})[0]; m.State != state {
			t.Errorf("got %+v for state %s of the current spec, want that state", m, state)
		}
	}
}

func TestUnknownFieldsOfReadyModuleAreReported(t *testing.T) {
	manifest := v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Name: "keda"}}
	for state, want := range map[v1beta2.State]string{
		v1beta2.StateReady: "ignored a: unknown field b", v1beta2.StateError: "cause",
	} {
		manifest.Status.State = state
		manifest.Status.Conditions = []metav1.Condition{
			{Type: v1beta2.ConditionReady, Message: "cause"},
			{Type: v1beta2.ConditionFields, Status: metav1.ConditionFalse, Message: "ignored a: unknown field b"},
		}
		if m := modules(Facts{Manifests: []v1beta2.Manifest{manifest}})[0]; m.Message != want || m.State != state {
			t.Errorf("got %+v for state %s, want that state with message %q", m, state, want)
		}
	}
	manifest.Status.State, manifest.Status.Conditions[1].Status = v1beta2.StateReady, metav1.ConditionTrue
	if m := modules(Facts{Manifests: []v1beta2.Manifest{manifest}})[0]; m.Message != "" {
		t.Errorf("got message %q after the fields were corrected, want none", m.Message)
	}
}

func TestFailedSecretsAreInReportAndStatus(t *testing.T) {
	for name, c := range map[string]struct {
		secrets *bundle.ReportedSecrets
		broken  bool // a module is in error
		want    metav1.ConditionStatus
		state   v1beta2.State
	}{
		"bundle without Secrets": {nil, false, "", v1beta2.StateReady},
		"all Secrets written": {
			&bundle.ReportedSecrets{Revision: "1"}, false, metav1.ConditionTrue, v1beta2.StateReady,
		},
		"one Secret not written": {
			&bundle.ReportedSecrets{Revision: "1", Trouble: "no namespace"}, false, metav1.ConditionFalse,
			v1beta2.StateWarning,
		},
		"one Secret not written and a module in error": {
			&bundle.ReportedSecrets{Revision: "1", Trouble: "no namespace"}, true, metav1.ConditionFalse,
			v1beta2.StateError,
		},
		"all Secrets written and a module in error": {
			&bundle.ReportedSecrets{Revision: "1"}, true, metav1.ConditionTrue, v1beta2.StateError,
		},
	} {
		facts := Facts{Bundle: &bundle.Bundle{}, Secrets: c.secrets, Kyma: &v1beta2.Kyma{}}
		if c.broken {
			manifest := v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Name: "keda"}}
			manifest.Status.State = v1beta2.StateError
			facts.Manifests = []v1beta2.Manifest{manifest}
		}
		status := KymaStatus(v1beta2.KymaStatus{}, facts, time.Unix(0, 0))
		condition := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionSecrets)
		if (condition == nil) != (c.want == "") || condition != nil && condition.Status != c.want ||
			status.State != c.state ||
			New("one", facts).Secrets != c.secrets {
			t.Errorf("%s: got state %s and condition %+v, want state %s and status %q", name, status.State, condition,
				c.state, c.want)
		}
		if modules := meta.FindStatusCondition(status.Conditions,
			v1beta2.ConditionModules); (modules.Status == metav1.ConditionTrue) == c.broken {
			t.Errorf("%s: got condition of modules %+v, want False only for a module in error", name, modules)
		}
	}
}

func TestReportedVersionIsTheAppliedVersion(t *testing.T) {
	m := v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Name: "keda"}, Spec: v1beta2.ManifestSpec{Version: "2.0.0"}}
	stated := func() bundle.ReportedModule { return modules(Facts{Manifests: []v1beta2.Manifest{m}})[0] }
	if got := stated(); got.Version != "2.0.0" || got.Wanted != "" {
		t.Errorf("got %+v without an applied version, want the version of the spec", got)
	}
	for applied, want := range map[string][2]string{
		`{"applied":{"version":"1.0.0","install":{"name":"a"}}}`: {"1.0.0", "2.0.0"},
		`{"applied":{"version":"2.0.0","install":{"name":"a"}}}`: {"2.0.0", ""}, `{`: {"2.0.0", ""},
	} {
		m.Annotations = map[string]string{v1beta2.AnnotationRecord: `{"record":` + applied + `}`}
		if got := stated(); got.Version != want[0] || got.Wanted != want[1] {
			t.Errorf("got %+v for applied version %s, want version %q and wanted version %q", got, applied, want[0],
				want[1])
		}
	}
}

func TestKymaHasConditionForWatchers(t *testing.T) {
	facts := Facts{
		Bundle: &bundle.Bundle{State: bundle.DesiredState{Watchers: []bundle.Watcher{{Name: "keda"}}}},
		Kyma:   &v1beta2.Kyma{},
	}
	condition := func(before v1beta2.KymaStatus) (v1beta2.KymaStatus, *metav1.Condition) {
		after := KymaStatus(before, facts, time.Unix(0, 0))
		return after, meta.FindStatusCondition(after.Conditions, v1beta2.ConditionSKRWebhook)
	}
	status, watched := condition(v1beta2.KymaStatus{})
	if watched == nil || watched.Status != metav1.ConditionTrue || watched.Reason != v1beta2.ReasonWatching {
		t.Fatalf("got condition %+v, want True with reason Watching", watched)
	}
	facts.Watched = []bundle.ReportedWatch{{Watcher: "keda", Trouble: "the agent may not list and watch kedas"}}
	if status, watched = condition(status); watched == nil || watched.Status != metav1.ConditionFalse ||
		watched.Message != "watcher keda: the agent may not list and watch kedas" {
		t.Errorf("got condition %+v of a failed watch, want False with its error", watched)
	}
	facts.Bundle.State.Watchers = nil
	if _, watched = condition(status); watched != nil {
		t.Errorf("got condition %+v without Watchers, want none", watched)
	}
}

func TestUnreadableRequestIsNotReportedInPart(t *testing.T) {
	kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: v1beta2.KymaSpec{Channel: "fast"}}
	facts := Facts{Kyma: kyma, PinsError: errors.New("entry keda")}
	for _, modules := range []int{0, 2} {
		kyma.Spec.Modules = make([]v1beta2.Module, modules)
		r := New("one", facts)
		if !r.OmitsRequest() || len(r.Kyma.Spec.Modules) != 0 || r.Kyma.Generation != 7 {
			t.Errorf("got Kyma %+v and omitted parts %+v of %d modules, want all modules omitted", r.Kyma, r.Truncated,
				modules)
		}
		if len(kyma.Spec.Modules) != modules {
			t.Error("New must not change the Kyma")
		}
	}
	facts.PinsError = nil
	if r := New("one", facts); r.OmitsRequest() || len(r.Kyma.Spec.Modules) != 2 {
		t.Errorf("got Kyma %+v and omitted parts %+v, want two modules", r.Kyma, r.Truncated)
	}
}

func TestObservedGenerationWaitsForBundle(t *testing.T) {
	kyma := &v1beta2.Kyma{Spec: v1beta2.KymaSpec{Channel: "regular"}}
	kyma.Generation = 3
	facts := Facts{Kyma: kyma, Bundle: &bundle.Bundle{}}
	facts.Bundle.Statement.Predicate.KymaGeneration = 3
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	expect := func(status v1beta2.KymaStatus, want int64) {
		t.Helper()
		for _, c := range status.Conditions {
			if c.ObservedGeneration != want {
				t.Errorf("condition %s has observed generation %d, want %d", c.Type, c.ObservedGeneration, want)
			}
		}
		if status.ObservedGeneration != want || status.ReadyModules != "0/0" {
			t.Errorf("got observed generation %d with ready modules %s, want %d with 0/0", status.ObservedGeneration,
				status.ReadyModules, want)
		}
	}
	status := KymaStatus(v1beta2.KymaStatus{}, facts, now)
	expect(status, 3)
	kyma.Generation = 4 // the request changed
	status = KymaStatus(status, facts, now)
	expect(status, 3)
	facts.Bundle.Statement.Predicate.KymaGeneration = 4
	expect(KymaStatus(status, facts, now), 4)
}
