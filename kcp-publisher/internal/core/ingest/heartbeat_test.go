package ingest

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestOnlyChangesAreWritten(t *testing.T) {
	report := func(change func(*bundle.AcceptedReport)) v1beta2.KymaStatus {
		r := bundle.AcceptedReport{
			Content: "sha256:said", Report: bundle.Report{Sequence: 5, Time: noon, AgentVersion: "v1"},
		}
		change(&r)
		status := healthy().status()
		Remember(&status, r, "key", "thumbprint", r.Time)
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
		"nothing is new":              {func(*bundle.AcceptedReport) {}, nil, false},
		"the same report later":       {later(5 * time.Minute), nil, false},
		"the same report hours later": {later(notedFor - time.Minute), nil, false},
		"the same report a day later": {later(notedFor + notedSpread), nil, true},
		"another report": {
			func(r *bundle.AcceptedReport) { r.Content = "sha256:other" }, nil, true,
		},
		"the same report from another agent": {
			func(r *bundle.AcceptedReport) { r.AgentVersion = "v2" }, nil, true,
		},
		"a condition changes": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Conditions[0].Message = "other" }, true,
		},
		"the control plane has something else": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Runtime.ID = "other" }, true,
		},
		"what is asked for there is known now": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Runtime.Requested = nil }, true,
		},
		"it is not known any more when it was": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Runtime.Observed = nil }, true,
		},
		"nothing is known of the runtime anymore": {
			later(time.Minute), func(s *v1beta2.KymaStatus) { s.Runtime = nil }, true,
		},
	} {
		after := report(c.change)
		after.Runtime.Requested = &v1beta2.RequestedSpec{Generation: 3}
		if c.status != nil {
			c.status(&after)
		}
		was, is := before.DeepCopy(), after.DeepCopy()
		if got := Notable(before, after); got != c.want {
			t.Errorf("%s: notable %v, want %v", name, got, c.want)
		}
		if !equal(before, *was) || !equal(after, *is) {
			t.Errorf("%s: looking changed it", name)
		}
	}
	never := *before.DeepCopy()
	never.Runtime = nil
	if !Notable(never, before) {
		t.Error("the first report is not written")
	}
}

func equal(a, b v1beta2.KymaStatus) bool { return outline(a) == outline(b) && !Notable(a, b) }

func TestStatusWritesOfAFleetAreSpread(t *testing.T) {
	at := func(id string) time.Time {
		return NotedUntil(v1beta2.KymaStatus{
			Runtime: &v1beta2.RuntimeStatus{
				ID: id, Observed: &v1beta2.ObservedBundle{Heard: new(metav1.NewTime(noon))},
			},
		})
	}
	if a, b := at("berlin"), at("paris"); a.Equal(b) || a.Before(noon.Add(notedFor)) ||
		b.After(noon.Add(notedFor+notedSpread)) {
		t.Errorf("noted again at %s and %s", a, b)
	}
	if at := NotedUntil(v1beta2.KymaStatus{}); !at.IsZero() {
		t.Errorf("a runtime that never reported: %s", at)
	}
}

// A report in the registry at the start of a publisher may have been read before without being recorded.
func TestRestartKeepsReportTimes(t *testing.T) {
	now := noon.Add(10 * time.Hour)
	noted := func(reportedAt time.Time) *v1beta2.RuntimeStatus {
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
		later  bool // than the first look
		want   time.Time
	}{
		"the one that is noted": {noted(noon), report(5, noon), false, noon},
		"a newer one": {
			noted(noon), report(6, noon.Add(9*time.Hour)), false, noon.Add(9 * time.Hour),
		},
		"a newer one, of a clock that is behind": {
			noted(noon.Add(-2 * time.Hour)), report(6, noon.Add(7*time.Hour)), false, noon.Add(9 * time.Hour),
		},
		"a newer one, of a clock that is ahead": {
			noted(noon.Add(20 * time.Hour)), report(6, noon.Add(29*time.Hour)), false, noon.Add(9 * time.Hour),
		},
		"one of a clock that was set forward":        {noted(noon), report(6, noon.Add(29*time.Hour)), false, now},
		"one of a clock that was set back":           {noted(noon), report(6, noon.Add(-29*time.Hour)), false, noon},
		"a newer one that appears after the start":   {noted(noon), report(6, noon.Add(9*time.Hour)), true, now},
		"the noted one that appears after the start": {noted(noon), report(5, noon), true, noon},
		"the first of another key":                   {noted(noon), enrolling, false, now},
		"the first":                                  {&v1beta2.RuntimeStatus{}, report(6, noon), false, now},
		"the first of a new Kyma":                    {nil, report(6, noon), false, now},
	} {
		if got := Arrived(c.before, c.report, !c.later, now); !got.Equal(c.want) {
			t.Errorf("%s arrived at %s, want %s", name, got, c.want)
		}
	}
}

// A publisher that has not read a report yet calls no runtime silent that the previous publisher may have heard, and
// none healthy either.
func TestUncertainSilenceIsNotReported(t *testing.T) {
	s := healthy()
	status := s.status()
	late := noon.Add(allowedSilence + time.Hour)
	for name, c := range map[string]struct {
		unnoted time.Time
		silent  bool
	}{
		"the report was looked for":        {time.Time{}, true},
		"it was not, since a moment":       {late.Add(-time.Minute), false},
		"it was not, for too long as well": {late.Add(-allowedSilence - time.Minute), true},
	} {
		if _, silent := Unheard(status, 3, allowedSilence, false, c.unnoted, late); silent != c.silent {
			t.Errorf("%s: silent %v, want %v", name, silent, c.silent)
		}
		facts := s.facts
		facts.Unnoted = c.unnoted
		after := Status(status, facts, late)
		if reporting := meta.IsStatusConditionTrue(after.Conditions,
			v1beta2.ConditionReporting); reporting == c.silent {
			t.Errorf("%s: it reports: %v", name, reporting)
		}
		if c.silent {
			again := facts
			again.Unnoted = late.Add(-time.Minute)
			if back := Status(after, again, late); meta.IsStatusConditionTrue(back.Conditions,
				v1beta2.ConditionReporting) || back.State == v1beta2.StateReady {
				t.Errorf("%s: what was silent is healthy: %s", name, outline(back))
			}
		}
	}
}
