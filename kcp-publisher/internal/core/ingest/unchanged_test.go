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

func TestSameFactsChangeNothing(t *testing.T) {
	for name, s := range map[string]*scene{
		"healthy":  healthy(),
		"silent":   healthy().later(time.Hour),
		"unknown":  healthy().with(nothingReported),
		"failing":  healthy().with(func(f *Facts) { f.PublishError = errors.New("no") }),
		"removing": removing(healthy()),
	} {
		t.Run(name, func(t *testing.T) {
			first := s.status()
			for _, pause := range []time.Duration{0, time.Second, 20 * time.Minute} {
				second := Status(first, s.facts, s.now.Add(pause))
				if pause > time.Minute && name != "silent" && name != "unknown" {
					second = Status(first, s.facts, s.now.Add(time.Minute)) // or it would be silent by then
				}
				if !reflect.DeepEqual(first, second) {
					t.Errorf("after %s: was %+v\nis %+v", pause, first, second)
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
		t.Errorf("silence began at %v", reporting(silent))
	}
	if !transition(silent, v1beta2.ConditionModules).Equal(noon) ||
		!transition(silent, v1beta2.ConditionAccepted).Equal(noon) {
		t.Errorf("conditions that did not change have new times: %+v", silent.Conditions)
	}
	if silent.LastOperation == nil || !silent.LastOperation.LastUpdateTime.Time.Equal(s.now) {
		t.Errorf("last operation is %+v", silent.LastOperation)
	}
	s.before = silent
	s.facts.ReportRefused = &refusal.Error{Reason: refusal.Malformed, Detail: "garbage"}
	refused := s.later(time.Hour).status()
	if c := reporting(refused); c.Reason != v1beta2.ReasonReportRefused ||
		!c.LastTransitionTime.Time.Equal(noon.Add(time.Hour)) {
		t.Errorf("another reason for the same status moved the time: %+v", c)
	}
	if last := refused.LastOperation; !last.LastUpdateTime.Time.Equal(s.now.Truncate(time.Second)) ||
		!strings.Contains(last.Operation, "garbage") {
		t.Errorf("the last operation is that of other trouble: %+v", last)
	}
	s.before = refused
	if again := s.later(time.Hour).
		status(); !again.LastOperation.LastUpdateTime.Equal(&refused.LastOperation.LastUpdateTime) {
		t.Errorf("the same trouble moved the last operation: %+v", again.LastOperation)
	}
	for _, c := range refused.Conditions {
		if c.ObservedGeneration != 3 {
			t.Errorf("%s observed generation %d", c.Type, c.ObservedGeneration)
		}
	}
}

// A bundle is in force whether or not the next one can be published.
func TestPublishErrorDoesNotAffectTheCurrentBundle(t *testing.T) {
	s := healthy()
	s.before = s.status()
	s.facts = Facts{
		Generation: 4, Silence: allowedSilence,
		PublishError: errors.New("annotation kyma-pull.dev/autonomy: is \"Nonsense\""),
	}
	after := s.later(time.Minute).status()
	accepted := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionAccepted)
	if accepted.Status != metav1.ConditionTrue {
		t.Errorf("Accepted is %+v", accepted)
	}
	if after.State != v1beta2.StateError || !strings.Contains(after.LastOperation.Operation, "Nonsense") {
		t.Errorf("state %s, last operation %+v", after.State, after.LastOperation)
	}
	fresh := healthy()
	fresh.before = v1beta2.KymaStatus{}
	fresh.facts = s.facts
	if accepted := meta.FindStatusCondition(fresh.status().Conditions,
		v1beta2.ConditionAccepted); accepted.Status != metav1.ConditionFalse {
		t.Errorf("before the first bundle Accepted is %+v", accepted)
	}
}

func TestPreviousStatusIsNotChanged(t *testing.T) {
	s := healthy()
	s.before = s.status()
	copied := s.before.DeepCopy()
	s.with(reported("mail", v1beta2.StateError, "e"))
	s.before = *copied.DeepCopy()
	s.later(time.Hour).status()
	if !reflect.DeepEqual(&s.before, copied) {
		t.Errorf("was %+v\nis %+v", copied, s.before)
	}
}
