package ingest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestRuntimeWithUnreadableReportsBecomesSilent(t *testing.T) {
	s := healthy()
	status := s.status()
	if after, silent := SilentStatus(status, 3, allowedSilence, false, time.Time{},
		noon.Add(allowedSilence-time.Minute)); silent || !reflect.DeepEqual(after, status) {
		t.Errorf("within the allowed silence: got silent %t, %s", silent, outline(after))
	}
	later := noon.Add(allowedSilence)
	after, silent := SilentStatus(status, 3, allowedSilence, false, time.Time{}, later)
	want := strings.Join([]string{"Warning",
		"not Ready (NotReady): the last report is from 2026-05-04T11:59:00Z, more than the allowed 30m0s ago",
		"not Reporting (Silent): the last report is from 2026-05-04T11:59:00Z, more than the allowed 30m0s ago",
		"keda@1.0.0 Ready", "mail@1.0.0 Ready"}, "\n")
	if got := sorted(outline(after)); !silent || got != sorted(want) {
		t.Errorf("got\n%s\nwant\n%s", got, sorted(want))
	}
	if !after.LastOperation.LastUpdateTime.Time.Equal(later) {
		t.Errorf("got last operation %+v, want one at %s", after.LastOperation, later)
	}
	if again, _ := SilentStatus(after, 3, allowedSilence, false, time.Time{},
		later.Add(time.Hour)); !reflect.DeepEqual(again, after) {
		t.Errorf("a longer outage changed the status: %s", outline(again))
	}
	// If the registry responds again and the runtime is still silent, NextStatus must not change the status.
	s.before = after
	if judged := s.later(allowedSilence).status(); !reflect.DeepEqual(judged, after) {
		t.Errorf("registry responds and the runtime is still silent: got\n%s\nwant\n%s", outline(judged),
			outline(after))
	}
}

func TestOverdueImportedReportsAreNotAFailure(t *testing.T) {
	const season = 90 * 24 * time.Hour
	carried := func(f *Facts) { f.SilenceTimeout, f.IsCarried = season, true }
	status := healthy().with(carried).later(season - time.Minute).status()
	reporting := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReporting)
	if status.State != v1beta2.StateReady || reporting.Status != metav1.ConditionTrue ||
		reporting.Reason != "Carried" ||
		reporting.Message != "reports are carried by hand: the latest is from 2026-05-04T11:59:00Z" {
		t.Errorf("after 89 of 90 days: got state %s and condition %+v", status.State, reporting)
	}
	onItsWay := "bundle 7 must be carried to the runtime, or the runtime's report to the control plane"
	status = healthy().with(carried).with(reportedEarlierBundle).status()
	accepted := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionAccepted)
	ready := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReady)
	if status.State != v1beta2.StateProcessing || accepted.Reason != "Carried" || accepted.Message != onItsWay ||
		ready.Message != onItsWay {
		t.Errorf("bundle must be carried: got state %s and conditions %+v, %+v", status.State, accepted, ready)
	}
	status = healthy().with(carried).later(season).status()
	if reporting := meta.FindStatusCondition(status.Conditions,
		v1beta2.ConditionReporting); status.State != v1beta2.StateWarning || reporting.Reason != "Silent" {
		t.Errorf("after more than 90 days: got state %s and condition %+v", status.State, reporting)
	}
}

func TestSilenceDoesNotHidePublishError(t *testing.T) {
	status := healthy().with(func(f *Facts) { f.PublishError = errors.New("runtime ID is taken") }).status()
	after, _ := SilentStatus(status, 3, allowedSilence, false, time.Time{}, noon.Add(time.Hour))
	if ready := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReady); after.State != v1beta2.StateError ||
		ready.Message != "runtime ID is taken" {
		t.Errorf("got %s, want the publish error", outline(after))
	}
}

func TestRuntimeWithoutReportDoesNotBecomeSilent(t *testing.T) {
	status := healthy().with(nothingReported).status()
	if after, silent := SilentStatus(status, 3, allowedSilence, false, time.Time{}, noon.Add(time.Hour)); silent ||
		!reflect.DeepEqual(after, status) {
		t.Errorf("runtime that never reported: got silent %t, %s, want an unchanged status", silent, outline(after))
	}
	if _, silent := SilentStatus(v1beta2.KymaStatus{}, 1, allowedSilence, false, time.Time{}, noon); silent {
		t.Error("empty status: got silent")
	}
}

func TestUnreadableReportIsReportedAsCauseOfSilence(t *testing.T) {
	denied := func(f *Facts) { f.ReportUnread = errors.New("the registry answers 403 Forbidden") }
	for name, c := range map[string]struct {
		scene *scene
		want  string
	}{
		"within the allowed silence": {healthy().with(denied), ""},
		"after the allowed silence": {
			healthy().with(denied).later(time.Hour),
			"the last report is from 2026-05-04T11:59:00Z, more than the allowed 30m0s ago, and its report cannot be " +
				"read: the registry answers 403 Forbidden",
		},
		"runtime never reported": {
			healthy().with(nothingReported).with(denied),
			"the runtime has never reported, and its report cannot be read: the registry answers 403 Forbidden",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if c := meta.FindStatusCondition(c.scene.status().Conditions,
				v1beta2.ConditionReporting); c.Status != "True" {
				got = c.Message
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// sorted sorts lines, so that the order of conditions does not matter.
func sorted(lines string) string {
	all := strings.Split(lines, "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// Neither the runtime's clock nor a restart of the publisher may change the recorded report time.
func TestReportTimeIsTheTimeOfFirstArrival(t *testing.T) {
	arrived := metav1.NewTime(noon)
	report := func(sequence int64, reportedAt time.Time) bundle.AcceptedReport {
		return bundle.AcceptedReport{Report: bundle.Report{Sequence: sequence, Time: reportedAt}}
	}
	known := v1beta2.RuntimeStatus{ReportSequence: 5, Observed: &v1beta2.ObservedBundle{Heard: &arrived}}
	enrolling := report(5, noon)
	enrolling.Enrolled = true
	for name, c := range map[string]struct {
		before v1beta2.RuntimeStatus
		report bundle.AcceptedReport
		want   time.Time
	}{
		"first report": {
			v1beta2.RuntimeStatus{}, report(5, noon.AddDate(1, 0, 0)), noon.Add(time.Hour),
		},
		"newer report":                          {known, report(6, noon.AddDate(-1, 0, 0)), noon.Add(time.Hour)},
		"recorded report, read after a restart": {known, report(5, noon), noon},
		"recorded time in the future": {
			v1beta2.RuntimeStatus{ReportSequence: 5,
				Observed: &v1beta2.ObservedBundle{Heard: new(metav1.NewTime(noon.AddDate(1, 0, 0)))}}, report(5, noon),
			noon.Add(time.Hour),
		},
		"enrollment of another key": {known, enrolling, noon.Add(time.Hour)},
		"report recorded without an arrival time": {
			v1beta2.RuntimeStatus{ReportSequence: 5, Observed: &v1beta2.ObservedBundle{}}, report(5, noon), noon,
		},
		"report recorded without an arrival time, the runtime's clock is ahead": {
			v1beta2.RuntimeStatus{ReportSequence: 5, Observed: &v1beta2.ObservedBundle{}},
			report(5, noon.AddDate(9, 0, 0)), noon.Add(time.Hour),
		},
	} {
		if got := lastReportTime(c.before, c.report, noon.Add(time.Hour)); !got.Time.Equal(c.want) {
			t.Errorf("%s: got report time %s, want %s", name, got, c.want)
		}
	}
}

func TestDelayedReportIsReportedAsClockBehind(t *testing.T) {
	s := healthy()
	s.before.Runtime.Observed.Time = metav1.NewTime(noon.Add(-25 * time.Hour))
	status := s.status()
	reporting := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReporting)
	if status.State != v1beta2.StateWarning || reporting.Reason != v1beta2.ReasonClockBehind ||
		reporting.Status != metav1.ConditionFalse ||
		!strings.Contains(reporting.Message,
			"arrived at 2026-05-04T11:59:00Z and is from 2026-05-03T11:00:00Z by the runtime's clock") {
		t.Errorf("delay of 25 hours: got state %s and condition %+v, want Warning and ClockBehind", status.State,
			reporting)
	}
	s.before.Runtime.Observed.Time = metav1.NewTime(noon.Add(-23 * time.Hour))
	if status := s.status(); status.State != v1beta2.StateReady {
		t.Errorf("delay within the allowed clock difference: got %s", outline(status))
	}
	// The age of an imported report is computed from the time in the report, not from its arrival.
	s.before.Runtime.Observed.Time = metav1.NewTime(noon.Add(-80 * 24 * time.Hour))
	s.facts.SilenceTimeout, s.facts.IsCarried = 90*24*time.Hour, true
	if status := s.status(); status.State != v1beta2.StateReady {
		t.Errorf("carried report after 80 of 90 days: got %s", outline(status))
	}
	if status := s.later(11 * 24 * time.Hour).status(); meta.FindStatusCondition(status.Conditions,
		v1beta2.ConditionReporting).Reason != v1beta2.ReasonSilent {
		t.Errorf("carried report after 91 of 90 days: got %s", outline(status))
	}
}

// A truncated report omits modules. The omitted modules must not be treated as removed.
func TestTruncatedReportIsReported(t *testing.T) {
	s := healthy().with(func(f *Facts) { f.Report.Truncated = &bundle.Truncated{Messages: true} })
	status := s.status()
	reporting := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReporting)
	if status.State != v1beta2.StateReady || reporting.Reason != v1beta2.ReasonTruncated ||
		reporting.Status != metav1.ConditionTrue ||
		reporting.Message != "the runtime reports; its report is truncated to fit: messages are shortened or omitted" {
		t.Errorf("report without messages: got state %s and condition %+v", status.State, reporting)
	}
	s = healthy().with(func(f *Facts) {
		f.Report.Truncated, f.Report.Modules = &bundle.Truncated{Modules: 1, Requested: 1100}, f.Report.Modules[:1]
		f.Report.Kyma = &bundle.ReportedKyma{Spec: v1beta2.KymaSpec{Channel: "regular"}, Generation: 9}
	})
	s.before.Runtime.Requested = &v1beta2.RequestedSpec{Spec: v1beta2.KymaSpec{Channel: "fast"}, Generation: 8}
	RecordReport(&s.before, *s.facts.Report, "key", "thumbprint", noon)
	status = s.status()
	reporting = meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReporting)
	if status.State != v1beta2.StateWarning ||
		!strings.Contains(reporting.Message, "the 1100 modules that its Kyma requests are ignored") ||
		!strings.Contains(outline(status), "omits the module") || status.Runtime.Requested.Generation != 8 {
		t.Errorf("report without modules: got %s\n%+v", outline(status), reporting)
	}
	s.facts.Report.Truncated = &bundle.Truncated{Requested: 1}
	s.facts.Report.Trouble = &bundle.ReportedTrouble{Reason: v1beta2.ReasonPinsUnreadable, Message: "entry keda"}
	status = s.status()
	reporting = meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReporting)
	synced := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionSynced)
	if reporting.Message != "the runtime reports; the module request of the runtime's Kyma is invalid: see "+
		"condition Synced" ||
		synced.Reason != v1beta2.ReasonPinsUnreadable ||
		synced.Message != "entry keda" || status.Runtime.Requested.Generation != 8 {
		t.Errorf("report with invalid pins: got %s\n%+v\n%+v", outline(status), reporting, synced)
	}
}
