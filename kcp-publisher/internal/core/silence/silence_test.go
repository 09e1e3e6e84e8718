package silence

import (
	"testing"
	"time"
)

func TestSilenceDependsOnLastAndPossibleReport(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		last LastReport
		want State
	}{
		"runtime without a report":                 {LastReport{}, NeverReported},
		"runtime without a report after a restart": {LastReport{PossibleAt: now}, NeverReported},
		"recent report":                            {LastReport{KnownAt: ago(time.Minute)}, Reporting},
		"report as old as allowed":                 {LastReport{KnownAt: ago(time.Hour)}, Reporting},
		"old report":                               {LastReport{KnownAt: ago(time.Hour + 1)}, Silent},
		"old report after a recent restart": {
			LastReport{KnownAt: ago(3 * time.Hour), PossibleAt: ago(time.Minute)}, Uncertain,
		},
		"old report long after a restart": {
			LastReport{KnownAt: ago(3 * time.Hour), PossibleAt: ago(time.Hour + 1)}, Silent,
		},
		"recent report long after a restart": {
			LastReport{KnownAt: ago(time.Minute), PossibleAt: ago(2 * time.Hour)}, Reporting,
		},
		"report in the future": {LastReport{KnownAt: now.Add(time.Hour)}, Reporting},
		"old report with a restart in the future": {
			LastReport{KnownAt: ago(3 * time.Hour), PossibleAt: now.Add(time.Hour)}, Uncertain,
		},
	} {
		if got := c.last.State(time.Hour, now); got != c.want {
			t.Errorf("%s: got state %d, want %d", name, got, c.want)
		}
		end := c.last.SilentAfter(time.Hour)
		before, after := c.last.State(time.Hour, end), c.last.State(time.Hour, end.Add(1))
		if c.want != NeverReported && (before == Silent || after != Silent) {
			t.Errorf("%s: the state is not Silent from %s", name, end)
		}
	}
}
