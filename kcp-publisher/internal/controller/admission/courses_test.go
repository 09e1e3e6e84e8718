package admission

import (
	"encoding/json"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestPolicyWithAnInvalidExpressionIsRefused(t *testing.T) {
	policy := func(expression string) (raw runtime.RawExtension) {
		var p fleet.RolloutPolicy
		p.Spec.Waves = []fleet.Wave{{Name: "canary", Checks: []fleet.Check{{Name: "queue", HTTP: &fleet.HTTPCheck{
			Service: fleet.ServiceReference{Namespace: "a", Name: "b", Port: 80}, Expression: expression,
		}}}}}
		raw.Raw, _ = json.Marshal(p)
		return raw
	}
	paused := func(expression string) (raw runtime.RawExtension) {
		var p fleet.RolloutPolicy
		_ = json.Unmarshal(policy(expression).Raw, &p)
		r := fleet.Rollout{Spec: fleet.RolloutSpec{Course: p.Spec.Course, Paused: true}}
		raw.Raw, _ = json.Marshal(r)
		return raw
	}
	const invalid = "body.queue <"
	const want = "spec.waves[0].checks[0].http.expression: line 1, column 13: Syntax error: mismatched input '<EOF>' " +
		"expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, " +
		"IDENTIFIER}"
	for name, c := range map[string]struct {
		before, after runtime.RawExtension
		want          string
	}{
		"new valid policy":                  {runtime.RawExtension{}, policy("body.queue < 1"), ""},
		"new invalid policy":                {runtime.RawExtension{}, policy(invalid), want},
		"change to an invalid policy":       {policy("body.queue < 1"), policy(invalid), want},
		"other change of an invalid course": {policy(invalid), paused(invalid), ""},
		"invalid edit of a Rollout":         {paused("body.queue < 1"), paused(invalid), want},
	} {
		response := validateCourse(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Object: c.after, OldObject: c.before,
		}})
		got := ""
		if response.Result != nil && !response.Allowed {
			got = response.Result.Message
		}
		if response.Allowed != (c.want == "") || got != c.want {
			t.Errorf("%s: allowed %t, message %q, want %q", name, response.Allowed, got, c.want)
		}
	}
}

func TestSoakThatIsLongerThanTheChecksCausesAWarning(t *testing.T) {
	for name, c := range map[string]struct {
		deadline, soak time.Duration
		checks         []fleet.Check
		want           int
	}{
		"checks run until the end of the soak": {time.Hour, bundle.MaxCheckFor - time.Hour, []fleet.Check{checkTrue}, 0},
		"checks end before the soak":           {time.Hour, bundle.MaxCheckFor, []fleet.Check{checkTrue}, 1},
		"wave without checks":                  {time.Hour, bundle.MaxCheckFor, nil, 0},
	} {
		policy := fleet.RolloutPolicy{Spec: fleet.RolloutPolicySpec{Course: fleet.Course{Waves: []fleet.Wave{{
			Name: "canary", Checks: c.checks,
			Deadline: metav1.Duration{Duration: c.deadline}, Soak: metav1.Duration{Duration: c.soak},
		}}}}}
		raw, err := json.Marshal(policy)
		if err != nil {
			t.Fatal(err)
		}
		response := validateCourse(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Object: runtime.RawExtension{Raw: raw},
		}})
		if !response.Allowed || len(response.Warnings) != c.want {
			t.Errorf("%s: allowed %t, warnings %q, want %d", name, response.Allowed, response.Warnings, c.want)
		}
	}
}

var checkTrue = fleet.Check{Name: "works", CEL: &fleet.CELCheck{Expression: "true"}}
