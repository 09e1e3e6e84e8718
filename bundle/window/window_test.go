package window

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func written(span Span, ok bool) string {
	if !ok {
		return "never"
	}
	return span.Begin.UTC().Format(time.RFC3339) + " > " + span.End.UTC().Format(time.RFC3339)
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func load(t testing.TB, path string) Policy {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := Parse(data)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return policy
}

// policyQuery is one policy query with its expected result. November 21, 2026 is a Saturday.
type policyQuery struct {
	runtime Runtime
	now     string
	minimum time.Duration
	want    string
}

func (m policyQuery) ask(t *testing.T, policy Policy) {
	t.Helper()
	if got := written(policy.For(m.runtime, m.minimum).Next(at(t, m.now))); got != m.want {
		t.Errorf("got %s, want %s", got, m.want)
	}
}

func TestNextMaintenanceWindowMatchesTheRuntime(t *testing.T) {
	weekly, dates := load(t, "testdata/weekly.json"), load(t, "testdata/dates.json")
	if len(weekly.Remarks)+len(dates.Remarks) > 0 {
		t.Errorf("got remarks %q and %q, want none", weekly.Remarks, dates.Remarks)
	}
	europe, japan := Runtime{Region: "eu-central-1"}, Runtime{PlatformRegion: "cf-jp20"}
	for name, c := range map[string]struct {
		policy Policy
		policyQuery
	}{
		"Next weekly window is returned": {
			weekly, policyQuery{europe, "2026-11-21T20:59:59Z", 0, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z"},
		},
		"Start of the window is included": {
			weekly, policyQuery{europe, "2026-11-21T21:00:00Z", 0, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z"},
		},
		"Last second of the window is included": {
			weekly, policyQuery{europe, "2026-11-21T23:59:59Z", 0, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z"},
		},
		"End of the window is excluded": {
			weekly, policyQuery{europe, "2026-11-22T00:00:00Z", 0, "2026-11-28T21:00:00Z > 2026-11-29T00:00:00Z"},
		},
		"Window with too little remaining time is skipped": {
			weekly, policyQuery{
				europe, "2026-11-21T23:40:01Z", 20 * time.Minute, "2026-11-28T21:00:00Z > 2026-11-29T00:00:00Z",
			},
		},
		"Window with just enough remaining time is returned": {
			weekly, policyQuery{
				europe, "2026-11-21T23:40:00Z", 20 * time.Minute, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z",
			},
		},
		"A window shorter than the minimum never opens": {
			weekly, policyQuery{europe, "2026-11-21T21:00:00Z", 4 * time.Hour, "never"},
		},
		"Time in another zone": {
			weekly, policyQuery{europe, "2026-11-22T08:30:00+09:00", 0, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z"},
		},
		"First matching rule applies": {
			weekly, policyQuery{
				Runtime{Plan: "free", Region: "eu-central-1"}, "2026-11-16T12:00:00Z", 0,
				"2026-11-16T01:00:00Z > 2026-11-24T01:00:00Z",
			},
		},
		"Adjacent windows are joined": {
			weekly, policyQuery{
				Runtime{Plan: "trial"}, "2026-11-16T00:59:59Z", time.Hour,
				"2026-11-15T01:00:00Z > 2026-11-24T01:00:00Z",
			},
		},
		"Pattern matches a part of the value": {
			weekly, policyQuery{
				Runtime{Region: "northeurope"}, "2026-11-16T00:00:00Z", 0,
				"2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z",
			},
		},
		"One matching field is enough": {
			weekly, policyQuery{
				Runtime{PlatformRegion: "cf-jp20", GlobalAccountID: "other"}, "2026-11-22T14:29:59Z", 0,
				"2026-11-22T14:30:00Z > 2026-11-22T17:00:00Z",
			},
		},
		"Pattern with ^ and $ does not match a longer value": {
			weekly, policyQuery{
				Runtime{GlobalAccountID: "acme-2"}, "2026-11-22T14:29:59Z", 0,
				"2026-11-28T21:00:00Z > 2026-11-28T23:00:00Z",
			},
		},
		"Window that began yesterday is open after midnight": {
			weekly, policyQuery{japan, "2026-11-22T16:30:00Z", 0, "2026-11-22T14:30:00Z > 2026-11-22T17:00:00Z"},
		},
		"Days are in the window's offset": {
			weekly, policyQuery{japan, "2026-11-23T15:00:00Z", 0, "2026-11-25T14:30:00Z > 2026-11-25T17:00:00Z"},
		},
		"Day in a western offset is the next day in UTC": {
			weekly, policyQuery{
				Runtime{Region: "us-west"}, "2026-11-21T00:00:00Z", 0, "2026-11-21T02:00:00Z > 2026-11-21T04:00:00Z",
			},
		},
		"Default applies to a runtime without a matching rule": {
			weekly, policyQuery{
				Runtime{Plan: "azure", Region: "brazilsouth"}, "2026-11-16T00:00:00Z", 0,
				"2026-11-21T21:00:00Z > 2026-11-21T23:00:00Z",
			},
		},
		"Default applies to a runtime without attributes": {
			weekly, policyQuery{Runtime{}, "2026-11-16T00:00:00Z", 0, "2026-11-21T21:00:00Z > 2026-11-21T23:00:00Z"},
		},
		"Earliest window is returned regardless of its position": {
			dates, policyQuery{europe, "2026-01-01T00:00:00Z", 0, "2026-10-10T20:00:00Z > 2026-10-11T00:00:00Z"},
		},
		"Window between two dates is open": {
			dates, policyQuery{europe, "2026-10-10T22:05:00Z", 0, "2026-10-10T20:00:00Z > 2026-10-11T00:00:00Z"},
		},
		"Window between two dates with too little remaining time is skipped": {
			dates, policyQuery{europe, "2026-10-10T22:05:00Z", 2 * time.Hour, "2026-12-08T20:00:00Z > 2026-12-09T00:00:00Z"},
		},
		"Default applies after the last window of a rule": {
			dates, policyQuery{europe, "2026-12-10T00:00:00Z", 0, "2026-12-12T20:00:00Z > 2026-12-13T00:00:00Z"},
		},
		"Default applies to a rule without windows": {
			dates, policyQuery{
				Runtime{Plan: "none"}, "2026-12-10T00:00:00Z", 0, "2026-12-12T20:00:00Z > 2026-12-13T00:00:00Z",
			},
		},
		"No window without a rule and a default": {
			Policy{}, policyQuery{europe, "2026-12-10T00:00:00Z", 0, "never"},
		},
		"Window on a leap day": {
			weekly, policyQuery{europe, "2032-02-28T22:00:00Z", 0, "2032-02-28T21:00:00Z > 2032-02-29T00:00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.ask(t, c.policy) })
	}
}

func TestLifecycleManagerPoliciesAreSupported(t *testing.T) {
	folder := "../../../shared/realworld/windows"
	if _, err := os.Stat(folder); err != nil {
		t.Skip("shared/realworld not found next to this checkout")
	}
	britain := Runtime{Region: "uksouth-vikings"}
	for name, c := range map[string]struct {
		file    string
		moments []policyQuery
		remarks []string // the remarks' expected prefixes
	}{
		"Current policy": {"policy.json", []policyQuery{
			{
				Runtime{Plan: "trial", Region: "eu-"}, "2026-11-18T12:00:00Z", 20 * time.Minute,
				"2026-11-18T01:00:00Z > 2026-11-26T01:00:00Z",
			},
			{
				Runtime{Region: "westeurope"}, "2026-11-18T12:00:00Z", 20 * time.Minute,
				"2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z",
			},
			{
				Runtime{Region: "japaneast"}, "2026-11-18T12:00:00Z", 20 * time.Minute,
				"2026-11-21T14:00:00Z > 2026-11-21T17:00:00Z",
			},
			{
				Runtime{Region: "eastus"}, "2026-11-18T12:00:00Z", 20 * time.Minute,
				"2026-11-22T14:00:00Z > 2026-11-22T17:00:00Z",
			},
			{
				Runtime{Region: "me-central2"}, "2026-11-18T12:00:00Z", 20 * time.Minute,
				"2026-11-20T17:00:00Z > 2026-11-20T21:00:00Z",
			},
			// In Kyma's file, the pattern "central│us" has the box-drawing character │ in place of a vertical bar.
			{
				Runtime{Region: "centralindia"}, "2026-11-18T12:00:00Z", 20 * time.Minute,
				"2026-11-21T21:00:00Z > 2026-11-21T23:00:00Z",
			},
		}, []string{"rules[3].match.region: "}},
		"Policy file with dates": {"ruleset-1.json", []policyQuery{
			{Runtime{Plan: "trial"}, "2024-10-03T05:05:00Z", time.Hour, "2024-10-03T01:00:00Z > 2024-10-11T01:00:00Z"},
			{britain, "2024-10-10T22:05:00Z", time.Hour, "2024-10-10T20:00:00Z > 2024-10-11T00:00:00Z"},
			{britain, "2024-10-10T22:05:00Z", 4 * time.Hour, "2024-12-08T20:00:00Z > 2024-12-09T00:00:00Z"},
			{britain, "2024-12-10T22:05:00Z", time.Hour, "2024-12-14T20:00:00Z > 2024-12-15T00:00:00Z"},
			{
				Runtime{GlobalAccountID: "sup-er-ga-case"}, "2024-10-01T00:00:00Z", 0,
				"2024-10-10T20:00:00Z > 2024-10-11T00:00:00Z",
			},
			{
				Runtime{Region: "luigi", PlatformRegion: "super-mario-bros"}, "2024-10-01T00:00:00Z", 0,
				"2024-10-10T20:00:00Z > 2024-10-11T00:00:00Z",
			},
		}, []string{"rules[5].windows[1].end ", "default: timeBegin and timeEnd"}},
		"Empty policy": {
			"ruleset-2.json", []policyQuery{{britain, "2024-10-10T22:05:00Z", 0, "never"}}, []string{"default is required"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := load(t, filepath.Join(folder, c.file))
			for _, m := range c.moments {
				m.ask(t, policy)
			}
			if len(policy.Remarks) != len(c.remarks) {
				t.Fatalf("got remarks %q, want %q", policy.Remarks, c.remarks)
			}
			for i, want := range c.remarks {
				if !strings.HasPrefix(policy.Remarks[i], want) {
					t.Errorf("got remark %q, want prefix %q", policy.Remarks[i], want)
				}
			}
		})
	}
}
