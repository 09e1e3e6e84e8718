package ingest

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestUnchangedInputDoesNotChangeStatus(t *testing.T) {
	for name, s := range map[string]*scene{
		"healthy runtime":             healthy(),
		"silent runtime":              healthy().later(time.Hour),
		"runtime that never reported": healthy().with(nothingReported),
		"runtime with a publish error": healthy().with(func(f *Facts) {
			f.PublishError = errors.New("no")
		}),
		"runtime that removes a module": removing(healthy()),
	} {
		t.Run(name, func(t *testing.T) {
			first := s.status()
			for _, pause := range []time.Duration{0, time.Second, 20 * time.Minute} {
				second := NextStatus(first, s.facts, s.now.Add(pause))
				if pause > time.Minute && name != "silent runtime" && name != "runtime that never reported" {
					second = NextStatus(first, s.facts, s.now.Add(time.Minute)) // later, the runtime is silent
				}
				if !reflect.DeepEqual(first, second) {
					t.Errorf("after %s: got %+v\nwant %+v", pause, second, first)
				}
			}
		})
	}
}

func TestTransitionTimesChangeOnlyWithTransitions(t *testing.T) {
	s := healthy()
	s.before = s.status()
	reporting := func(status v1beta2.KymaStatus) *metav1.Condition {
		return meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReporting)
	}
	transition := func(status v1beta2.KymaStatus, kind string) time.Time {
		return meta.FindStatusCondition(status.Conditions, kind).LastTransitionTime.Time
	}
	silent := s.later(time.Hour).status()
	if !transition(silent, v1beta2.ConditionReporting).Equal(s.now) ||
		!transition(silent, v1beta2.ConditionReady).Equal(s.now) {
		t.Errorf("silent runtime: got condition %+v, want a transition at %s", reporting(silent), s.now)
	}
	if !transition(silent, v1beta2.ConditionModules).Equal(noon) ||
		!transition(silent, v1beta2.ConditionAccepted).Equal(noon) {
		t.Errorf("unchanged conditions have new transition times: %+v", silent.Conditions)
	}
	if silent.LastOperation == nil || !silent.LastOperation.LastUpdateTime.Time.Equal(s.now) {
		t.Errorf("got last operation %+v, want one at %s", silent.LastOperation, s.now)
	}
	s.before = silent
	s.facts.ReportRefused = &refusal.Error{Reason: refusal.Malformed, Detail: "garbage"}
	refused := s.later(time.Hour).status()
	if c := reporting(refused); c.Reason != v1beta2.ReasonReportRefused ||
		!c.LastTransitionTime.Time.Equal(noon.Add(time.Hour)) {
		t.Errorf("another reason with the same status changed the transition time: %+v", c)
	}
	if last := refused.LastOperation; !last.LastUpdateTime.Time.Equal(s.now.Truncate(time.Second)) ||
		!strings.Contains(last.Operation, "garbage") {
		t.Errorf("got last operation %+v, want the refused report", last)
	}
	s.before = refused
	if again := s.later(time.Hour).
		status(); !again.LastOperation.LastUpdateTime.Equal(&refused.LastOperation.LastUpdateTime) {
		t.Errorf("the same refusal changed the last operation: %+v", again.LastOperation)
	}
	for _, c := range refused.Conditions {
		if c.ObservedGeneration != 3 {
			t.Errorf("condition %s: got observed generation %d, want 3", c.Type, c.ObservedGeneration)
		}
	}
}

// The publish error must not change condition Accepted.
func TestPublishErrorDoesNotAffectTheCurrentBundle(t *testing.T) {
	s := healthy()
	s.before = s.status()
	s.facts = Facts{
		Generation: 4, SilenceTimeout: allowedSilence,
		PublishError: errors.New("annotation kyma-pull.dev/autonomy: is \"Nonsense\""),
	}
	after := s.later(time.Minute).status()
	accepted := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionAccepted)
	if accepted.Status != metav1.ConditionTrue {
		t.Errorf("got condition %+v, want Accepted True", accepted)
	}
	if after.State != v1beta2.StateError || !strings.Contains(after.LastOperation.Operation, "Nonsense") {
		t.Errorf("got state %s and last operation %+v, want the publish error", after.State, after.LastOperation)
	}
	fresh := healthy()
	fresh.before = v1beta2.KymaStatus{}
	fresh.facts = s.facts
	if accepted := meta.FindStatusCondition(fresh.status().Conditions,
		v1beta2.ConditionAccepted); accepted.Status != metav1.ConditionFalse {
		t.Errorf("before the first bundle: got condition %+v, want Accepted False", accepted)
	}
}

func TestNextStatusDoesNotModifyItsArgument(t *testing.T) {
	s := healthy()
	s.before = s.status()
	copied := s.before.DeepCopy()
	s.with(reported("mail", v1beta2.StateError, "e"))
	s.before = *copied.DeepCopy()
	s.later(time.Hour).status()
	if !reflect.DeepEqual(&s.before, copied) {
		t.Errorf("Status changed its argument: got %+v\nwant %+v", s.before, copied)
	}
}
