package ingest

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestChangedOrOldStatusNeedsUpdate(t *testing.T) {
	report := func(change func(*bundle.AcceptedReport)) v1beta2.KymaStatus {
		r := bundle.AcceptedReport{
			Content: "sha256:report", Report: bundle.Report{Sequence: 5, Time: noon, AgentVersion: "v1"},
		}
		change(&r)
		status := healthy().status()
		RecordReport(&status, r, "key", "thumbprint", r.Time)
		return status
	}
	before := report(func(*bundle.AcceptedReport) {})
	before.Runtime.Requested = &v1beta2.RequestedSpec{Generation: 3}
	later := func(d time.Duration) func(*bundle.AcceptedReport) {
		return func(r *bundle.AcceptedReport) { r.Sequence, r.Time = 6, noon.Add(d) }
	}
	for name, c := range map[string]struct {
		change func(*bundle.AcceptedReport)
		status func(*v1beta2.KymaStatus)
		want   bool
	}{
		"unchanged status":              {func(*bundle.AcceptedReport) {}, nil, false},
		"repeated report after minutes": {later(5 * time.Minute), nil, false},
		"repeated report after hours":   {later(updateDelay - time.Minute), nil, false},
		"repeated report after a day":   {later(updateDelay + updateSpread), nil, true},
		"report with different content": {
			func(r *bundle.AcceptedReport) { r.Content = "sha256:other" }, nil, true,
		},
		"report from a different agent version": {
			func(r *bundle.AcceptedReport) { r.AgentVersion = "v2" }, nil, true,
		},
		"changed condition": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Conditions[0].Message = "other" }, true,
		},
		"changed runtime ID": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Runtime.ID = "other" }, true,
		},
		"changed request": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Runtime.Requested = nil }, true,
		},
		"report removed from the status": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Runtime.Observed = nil }, true,
		},
		"runtime removed from the status": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Runtime = nil }, true,
		},
	} {
		after := report(c.change)
		after.Runtime.Requested = &v1beta2.RequestedSpec{Generation: 3}
		if c.status != nil {
			c.status(&after)
		}
		was, is := before.DeepCopy(), after.DeepCopy()
		if got := NeedsUpdate(before, after); got != c.want {
			t.Errorf("%s: got needs update %t, want %t", name, got, c.want)
		}
		if !equal(before, *was) || !equal(after, *is) {
			t.Errorf("%s: NeedsUpdate changed its arguments", name)
		}
	}
	never := *before.DeepCopy()
	never.Runtime = nil
	if !NeedsUpdate(never, before) {
		t.Error("first report: got no needed update, want one")
	}
}

func equal(a, b v1beta2.KymaStatus) bool { return outline(a) == outline(b) && !NeedsUpdate(a, b) }

func TestFleetStatusUpdatesAreSpreadOverTime(t *testing.T) {
	at := func(id string) time.Time {
		return NextUpdate(v1beta2.KymaStatus{
			Runtime: &v1beta2.RuntimeStatus{
				ID: id, Observed: &v1beta2.ObservedBundle{Heard: new(metav1.NewTime(noon))},
			},
		})
	}
	if a, b := at("berlin"), at("paris"); a.Equal(b) || a.Before(noon.Add(updateDelay)) ||
		b.After(noon.Add(updateDelay+updateSpread)) {
		t.Errorf("got next updates at %s and %s, want different times within the spread", a, b)
	}
	if at := NextUpdate(v1beta2.KymaStatus{}); !at.IsZero() {
		t.Errorf("runtime that never reported: got %s, want zero", at)
	}
}

// Another publisher received these reports but did not write their times to the status.
func TestRestartKeepsReportTimes(t *testing.T) {
	now := noon.Add(10 * time.Hour)
	recorded := func(reportedAt time.Time) *v1beta2.RuntimeStatus {
		return &v1beta2.RuntimeStatus{
			ReportSequence: 5, Observed: &v1beta2.ObservedBundle{
				Time: metav1.NewTime(reportedAt), Heard: new(metav1.NewTime(noon)),
			},
		}
	}
	report := func(sequence int64, reportedAt time.Time) bundle.AcceptedReport {
		return bundle.AcceptedReport{Report: bundle.Report{Sequence: sequence, Time: reportedAt}}
	}
	enrolling := report(6, noon.Add(time.Hour))
	enrolling.Enrolled = true
	for name, c := range map[string]struct {
		before *v1beta2.RuntimeStatus
		report bundle.AcceptedReport
		later  bool // true if the report is not the first after the start
		want   time.Time
	}{
		"recorded report": {recorded(noon), report(5, noon), false, noon},
		"newer report": {
			recorded(noon), report(6, noon.Add(9*time.Hour)), false, noon.Add(9 * time.Hour),
		},
		"newer report, the runtime's clock is behind": {
			recorded(noon.Add(-2 * time.Hour)), report(6, noon.Add(7*time.Hour)), false, noon.Add(9 * time.Hour),
		},
		"newer report, the runtime's clock is ahead": {
			recorded(noon.Add(20 * time.Hour)), report(6, noon.Add(29*time.Hour)), false, noon.Add(9 * time.Hour),
		},
		"newer report after the runtime's clock was set forward": {
			recorded(noon), report(6, noon.Add(29*time.Hour)), false, now,
		},
		"newer report after the runtime's clock was set back": {
			recorded(noon), report(6, noon.Add(-29*time.Hour)), false, noon,
		},
		"newer report that is not the first after the start": {
			recorded(noon), report(6, noon.Add(9*time.Hour)), true, now,
		},
		"recorded report that is not the first after the start": {recorded(noon), report(5, noon), true, noon},
		"enrollment of another key":                             {recorded(noon), enrolling, false, now},
		"first report of the runtime": {
			&v1beta2.RuntimeStatus{}, report(6, noon), false, now,
		},
		"first report of a new Kyma": {nil, report(6, noon), false, now},
	} {
		if got := ArrivalTime(c.before, c.report, !c.later, now); !got.Equal(c.want) {
			t.Errorf("%s: got arrival at %s, want %s", name, got, c.want)
		}
	}
}

// A publisher that has not read the report since its start must not change the recorded state.
func TestRuntimeWithPossibleUnrecordedReportIsNotSilent(t *testing.T) {
	s := healthy()
	status := s.status()
	late := noon.Add(allowedSilence + time.Hour)
	for name, c := range map[string]struct {
		unnoted time.Time
		silent  bool
	}{
		"publisher tried to read the report":                    {time.Time{}, true},
		"publisher started a minute ago":                        {late.Add(-time.Minute), false},
		"publisher started longer ago than the allowed silence": {late.Add(-allowedSilence - time.Minute), true},
	} {
		if _, silent := SilentStatus(status, 3, allowedSilence, false, c.unnoted, late); silent != c.silent {
			t.Errorf("%s: got silent %t, want %t", name, silent, c.silent)
		}
		facts := s.facts
		facts.UnrecordedUntil = c.unnoted
		after := NextStatus(status, facts, late)
		if reporting := meta.IsStatusConditionTrue(after.Conditions,
			v1beta2.ConditionReporting); reporting == c.silent {
			t.Errorf("%s: got condition Reporting %t, want %t", name, reporting, !c.silent)
		}
		if c.silent {
			again := facts
			again.UnrecordedUntil = late.Add(-time.Minute)
			if back := NextStatus(after, again, late); meta.IsStatusConditionTrue(back.Conditions,
				v1beta2.ConditionReporting) || back.State == v1beta2.StateReady {
				t.Errorf("%s: the recorded silence was cleared without a report: %s", name, outline(back))
			}
		}
	}
}
