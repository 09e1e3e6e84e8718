package status

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func condition(kind, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "fine"}
	if message != "" {
		c.Status, c.Message = metav1.ConditionFalse, message
	}
	return c
}

func kymaWith(state v1beta2.State, modules []v1beta2.ModuleStatus, conditions ...metav1.Condition) *v1beta2.Kyma {
	return &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{v1beta2.LabelRuntimeID: "r-1"}},
		Status: v1beta2.KymaStatus{State: state, Modules: modules, Conditions: conditions,
			Runtime: &v1beta2.RuntimeStatus{
				Observed: &v1beta2.ObservedBundle{Time: metav1.NewTime(noon.Add(-time.Minute))},
			}},
	}
}

func TestWhyCommandNamesTheFirstCause(t *testing.T) {
	keda := v1beta2.ModuleStatus{Name: "keda", State: v1beta2.StateReady}
	mail := v1beta2.ModuleStatus{Name: "mail", State: v1beta2.StateError, Message: "no such image"}
	for name, c := range map[string]struct {
		kyma   *v1beta2.Kyma
		module string
		cause  string
	}{
		"A ready runtime has no cause": {
			kymaWith("Ready", []v1beta2.ModuleStatus{keda}, condition("Ready", "Ready", ""),
				condition("Accepted", "Accepted", ""), condition("Reporting", "Reported", "")), "", ""},
		"A Kyma without a status needs a publisher": {
			kymaWith("", nil), "", "no publisher has reconciled this Kyma yet: check that one is running"},
		"A failure to publish comes first": {
			kymaWith("Error", []v1beta2.ModuleStatus{mail}, condition("Ready", "PublishFailed", "no registry"),
				condition("Accepted", "Pending", "waiting"), condition("Reporting", "Silent", "silent")),
			"", "no registry"},
		"A refused bundle comes before silence": {
			kymaWith("Warning", []v1beta2.ModuleStatus{mail}, condition("Ready", "NotReady", "silent"),
				condition("Accepted", "BundleRefused", "refused"), condition("Reporting", "Silent", "silent")),
			"", "refused"},
		"Silence comes before the modules": {
			kymaWith("Warning", []v1beta2.ModuleStatus{mail}, condition("Ready", "NotReady", "silent"),
				condition("Accepted", "Accepted", ""), condition("Reporting", "Silent", "silent")),
			"", "silent"},
		"A missing Secret comes before the modules": {
			kymaWith("Error", []v1beta2.ModuleStatus{mail}, condition("Ready", "NotReady", "x"),
				condition("Reporting", "Reported", ""), condition("Secrets", "NotWritten", "no namespace")),
			"", "no namespace"},
		"A failing module is the cause": {
			kymaWith("Error", []v1beta2.ModuleStatus{keda, mail}, condition("Ready", "NotReady", "x"),
				condition("Accepted", "Accepted", ""), condition("Reporting", "Reported", "")),
			"", "module mail is Error: no such image"},
		"A ready module has no cause, even if the runtime is failing": {
			kymaWith("Error", []v1beta2.ModuleStatus{keda, mail}, condition("Ready", "NotReady", "x")), "keda", ""},
		"An unmanaged module is not a cause": {
			kymaWith("Ready", []v1beta2.ModuleStatus{{Name: "keda", State: v1beta2.StateUnmanaged}},
				condition("Ready", "Ready", "")), "", ""},
		"An upgrade that waits for a window is the cause for a ready module": {
			kymaWith("Ready",
				[]v1beta2.ModuleStatus{{Name: "keda", Version: "1.0.0", State: v1beta2.StateReady, Maintenance: true,
					Message: "waits for Saturday"}}, condition("Ready", "Ready", "")), "",
			"module keda stays at version 1.0.0: waits for Saturday"},
		"A failing module comes before a waiting upgrade": {
			kymaWith("Error",
				[]v1beta2.ModuleStatus{{Name: "keda", State: v1beta2.StateReady, Maintenance: true}, mail},
				condition("Ready", "NotReady", "x")), "",
			"module mail is Error: no such image"},
		"A module without a message has a default cause": {
			kymaWith("Processing", []v1beta2.ModuleStatus{{Name: "keda", State: v1beta2.StateProcessing}},
				condition("Ready", "NotReady", "x")), "",
			"module keda is Processing: no reason was reported"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := explainRuntime(c.kyma, c.module, fleet.Rollouts{}, noon)
			if err != nil || a.Cause != c.cause || a.Runtime != "r-1" || a.Age != "1m0s" {
				t.Errorf("got %+v, %v; want %q", a, err, c.cause)
			}
			if c.module != "" && (len(a.Modules) != 1 || a.Modules[0].Name != c.module) {
				t.Errorf("got modules %+v, want only %s", a.Modules, c.module)
			}
		})
	}
}

func TestWhyCommandRefusesAnUnrequestedModule(t *testing.T) {
	_, err := explainRuntime(kymaWith("Ready", nil), "keda", fleet.Rollouts{}, noon)
	if err == nil || err.Error() != "runtime r-1: module keda is not requested and not installed" {
		t.Errorf("got %v, want an error about module keda", err)
	}
}

func TestWhyCommandDescribesTheAgeOfReports(t *testing.T) {
	for _, c := range []struct {
		reporting metav1.Condition
		want      string
	}{
		{condition("Reporting", "Reported", ""), "recorded 1m0s ago; unchanged reports are recorded once a day"},
		{condition("Reporting", "Silent", "silent"), "1m0s ago"},
		{condition("Reporting", "Carried", ""), "1m0s ago"},
	} {
		a, err := explainRuntime(kymaWith("Ready", nil, c.reporting), "", fleet.Rollouts{}, noon)
		if got := a.reportAge(); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.reporting.Reason, got, err, c.want)
		}
	}
}

func TestWhyCommandExplainsRuntimeWithoutReports(t *testing.T) {
	kyma := kymaWith("Processing", nil, condition("Ready", "NotReady", "x"), condition("Accepted", "Accepted", ""),
		condition("Reporting", "NeverReported", "the runtime has never reported"))
	kyma.Labels, kyma.Status.Runtime = nil, nil
	a, err := explainRuntime(kyma, "", fleet.Rollouts{}, noon)
	if err != nil || a.Age != "" || a.Runtime != "one" || a.Cause != "the runtime has never reported" {
		t.Errorf("got answer %+v, %v", a, err)
	}
}

func TestWhyCommandPrintsReadableText(t *testing.T) {
	a, err := explainRuntime(kymaWith("Error", []v1beta2.ModuleStatus{
		{Name: "mail", Channel: "fast", Version: "1.0.0", State: v1beta2.StateError, Message: "no such image"},
	},
		condition("Ready", "NotReady", "x")), "", fleet.Rollouts{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a.draw(&out)
	lines := []string{}
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	want := `runtime r-1 is Error
  cause      module mail is Error: no such image
  fix        see its Manifest in the runtime: kubectl describe manifest -n kyma-system; ` +
		`without access to the runtime: kcp-publisher logs r-1 -n NAMESPACE --location REGISTRY/PATH
  report     1m0s ago

MODULE  CHANNEL  VERSION  STATE  MESSAGE
mail    fast     1.0.0    Error  no such image`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhyCommandPrintsJSON(t *testing.T) {
	kyma := kymaWith("Processing", nil, condition("Ready", "NotReady", "x"),
		condition("Accepted", "Pending", "waiting for the runtime to report bundle 7"),
		condition("Reporting", "NeverReported", "the runtime has never reported"))
	kyma.Status.Runtime.Observed = nil
	a, err := explainRuntime(kyma, "", fleet.Rollouts{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(a)
	want := `{"runtime":"r-1","state":"Processing","health":"NeverReported","cause":"the runtime has never reported","situation":"NeverEnrolled",` +
		`"advice":"enroll it: kcp-publisher enroll r-1 --kyma NAMESPACE/one --location REGISTRY/PATH; apply its output in the runtime, and see the agent's log","modules":[]}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
}

func TestWhyCommandShowsTheSuspensionFirst(t *testing.T) {
	kyma := kymaWith("Ready", nil, condition("Ready", "Ready", ""))
	kyma.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
	stated := func() string {
		a, err := explainRuntime(kyma, "", fleet.Rollouts{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a.draw(&out)
		first, _, _ := strings.Cut(out.String(), "\n")
		return first
	}
	if got := stated(); got != "runtime r-1 is Suspended; its state was Ready" {
		t.Errorf("without managed fields: got %q", got)
	}
	at := metav1.NewTime(noon.Add(-time.Hour))
	kyma.ManagedFields = []metav1.ManagedFieldsEntry{
		{
			Manager: "kcp-publisher", Time: &metav1.Time{Time: noon},
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{}}}`),
		},
		{
			Manager: "kubectl-label", Time: &at,
			FieldsV1: metav1.NewFieldsV1(
				`{"f:metadata":{"f:labels":{"f:operator.kyma-project.io/skip-reconciliation":{}}}}`),
		},
	}
	if got := stated(); got != "runtime r-1 is Suspended since 2026-05-04T11:00:00Z, by kubectl-label; its state was "+
		"Ready" {
		t.Errorf("with managed fields: got %q", got)
	}
}

func TestWhyCommandKeepsCauseWhileCommitIsHeld(t *testing.T) {
	held := fleet.HeldCause("commit 1234 is not complete")
	mail := v1beta2.ModuleStatus{Name: "mail", State: v1beta2.StateError, Message: "no such image"}
	for name, c := range map[string]struct {
		kyma     *v1beta2.Kyma
		cause    string
		warnings []fleet.Cause
	}{
		"failing runtime": {
			kymaWith("Error", []v1beta2.ModuleStatus{mail}, condition("Ready", "NotReady", "x")),
			"module mail is Error: no such image", []fleet.Cause{held},
		},
		"ready runtime": {kymaWith("Ready", nil, condition("Ready", "Ready", "")), held.Message, nil},
	} {
		a, err := explainRuntime(c.kyma, "", fleet.Rollouts{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		health := a.Health
		a.addHeld(held)
		if a.Cause != c.cause || a.Health != health || !slices.Equal(a.Warnings, c.warnings) ||
			(a.Situation == held.Situation) != (c.warnings == nil) {
			t.Errorf("%s: got %+v, want cause %q and warnings %v", name, a, c.cause, c.warnings)
		}
	}
}
