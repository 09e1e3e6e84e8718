package silence

import (
	"testing"
	"time"
)

func TestState(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		last LastReport
		want State
	}{
		"no report":                  {LastReport{}, Never},
		"no report, after a restart": {LastReport{Possible: now}, Never},
		"a recent report":            {LastReport{At: ago(time.Minute)}, Reporting},
		"a report at the limit":      {LastReport{At: ago(time.Hour)}, Reporting},
		"an old report":              {LastReport{At: ago(time.Hour + 1)}, Silent},
		"an old report, after a restart": {
			LastReport{At: ago(3 * time.Hour), Possible: ago(time.Minute)}, Uncertain,
		},
		"an old report, long after a restart": {
			LastReport{At: ago(3 * time.Hour), Possible: ago(time.Hour + 1)}, Silent,
		},
		"a recent report, an old restart": {
			LastReport{At: ago(time.Minute), Possible: ago(2 * time.Hour)}, Reporting,
		},
		"a report by a clock that is set back": {LastReport{At: now.Add(time.Hour)}, Reporting},
		"an old report, future restart": {
			LastReport{At: ago(3 * time.Hour), Possible: now.Add(time.Hour)}, Uncertain,
		},
	} {
		if got := c.last.State(time.Hour, now); got != c.want {
			t.Errorf("%s: state %d, want %d", name, got, c.want)
		}
	}
}
