package window

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// written returns a span as "begin > end" in UTC, and "never" for none.
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

// moment is one query of a policy. 21 November 2026 is a Saturday.
type moment struct {
	runtime Runtime
	now     string
	minimum time.Duration
	want    string
}

func (m moment) ask(t *testing.T, policy Policy) {
	t.Helper()
	if got := written(policy.For(m.runtime, m.minimum).Next(at(t, m.now))); got != m.want {
		t.Errorf("got %s, want %s", got, m.want)
	}
}

func TestNextWindowOfARuntime(t *testing.T) {
	weekly, dates := load(t, "testdata/weekly.json"), load(t, "testdata/dates.json")
	if len(weekly.Remarks)+len(dates.Remarks) > 0 {
		t.Errorf("remarks %q %q", weekly.Remarks, dates.Remarks)
	}
	europe, japan := Runtime{Region: "eu-central-1"}, Runtime{PlatformRegion: "cf-jp20"}
	for name, c := range map[string]struct {
		policy Policy
		moment
	}{
		"A weekly window is to come": {
			weekly, moment{europe, "2026-11-21T20:59:59Z", 0, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z"},
		},
		"The begin is inside": {
			weekly, moment{europe, "2026-11-21T21:00:00Z", 0, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z"},
		},
		"The last second is inside": {
			weekly, moment{europe, "2026-11-21T23:59:59Z", 0, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z"},
		},
		"The end is outside": {
			weekly, moment{europe, "2026-11-22T00:00:00Z", 0, "2026-11-28T21:00:00Z > 2026-11-29T00:00:00Z"},
		},
		"The remaining time is too short to begin": {
			weekly, moment{
				europe, "2026-11-21T23:40:01Z", 20 * time.Minute, "2026-11-28T21:00:00Z > 2026-11-29T00:00:00Z",
			},
		},
		"The remaining time is just enough": {
			weekly, moment{
				europe, "2026-11-21T23:40:00Z", 20 * time.Minute, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z",
			},
		},
		"A window shorter than the minimum never opens": {
			weekly, moment{europe, "2026-11-21T21:00:00Z", 4 * time.Hour, "never"},
		},
		"The time is in another zone": {
			weekly, moment{europe, "2026-11-22T08:30:00+09:00", 0, "2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z"},
		},
		"The first rule that matches counts": {
			weekly, moment{
				Runtime{Plan: "free", Region: "eu-central-1"}, "2026-11-16T12:00:00Z", 0,
				"2026-11-16T01:00:00Z > 2026-11-24T01:00:00Z",
			},
		},
		"Windows that touch are one, however little time remains": {
			weekly, moment{
				Runtime{Plan: "trial"}, "2026-11-16T00:59:59Z", time.Hour,
				"2026-11-15T01:00:00Z > 2026-11-24T01:00:00Z",
			},
		},
		"A pattern is searched for, not compared": {
			weekly, moment{
				Runtime{Region: "northeurope"}, "2026-11-16T00:00:00Z", 0,
				"2026-11-21T21:00:00Z > 2026-11-22T00:00:00Z",
			},
		},
		"One field that matches is enough": {
			weekly, moment{
				Runtime{PlatformRegion: "cf-jp20", GlobalAccountID: "other"}, "2026-11-22T14:29:59Z", 0,
				"2026-11-22T14:30:00Z > 2026-11-22T17:00:00Z",
			},
		},
		"An anchored pattern matches nothing longer": {
			weekly, moment{
				Runtime{GlobalAccountID: "acme-2"}, "2026-11-22T14:29:59Z", 0,
				"2026-11-28T21:00:00Z > 2026-11-28T23:00:00Z",
			},
		},
		"After midnight the window of yesterday is still open": {
			weekly, moment{japan, "2026-11-22T16:30:00Z", 0, "2026-11-22T14:30:00Z > 2026-11-22T17:00:00Z"},
		},
		"Days are those of the window's offset": {
			weekly, moment{japan, "2026-11-23T15:00:00Z", 0, "2026-11-25T14:30:00Z > 2026-11-25T17:00:00Z"},
		},
		"A day far west is tomorrow here": {
			weekly, moment{
				Runtime{Region: "us-west"}, "2026-11-21T00:00:00Z", 0, "2026-11-21T02:00:00Z > 2026-11-21T04:00:00Z",
			},
		},
		"A runtime without a matching rule has the default": {
			weekly, moment{
				Runtime{Plan: "azure", Region: "brazilsouth"}, "2026-11-16T00:00:00Z", 0,
				"2026-11-21T21:00:00Z > 2026-11-21T23:00:00Z",
			},
		},
		"A runtime without attributes has the default": {
			weekly, moment{Runtime{}, "2026-11-16T00:00:00Z", 0, "2026-11-21T21:00:00Z > 2026-11-21T23:00:00Z"},
		},
		"The earliest window comes first, whatever its position": {
			dates, moment{europe, "2026-01-01T00:00:00Z", 0, "2026-10-10T20:00:00Z > 2026-10-11T00:00:00Z"},
		},
		"A window between dates is open": {
			dates, moment{europe, "2026-10-10T22:05:00Z", 0, "2026-10-10T20:00:00Z > 2026-10-11T00:00:00Z"},
		},
		"A window with too little time left is skipped": {
			dates, moment{europe, "2026-10-10T22:05:00Z", 2 * time.Hour, "2026-12-08T20:00:00Z > 2026-12-09T00:00:00Z"},
		},
		"Once all windows of a rule are over, the default applies": {
			dates, moment{europe, "2026-12-10T00:00:00Z", 0, "2026-12-12T20:00:00Z > 2026-12-13T00:00:00Z"},
		},
		"A rule without windows leaves the default": {
			dates, moment{
				Runtime{Plan: "none"}, "2026-12-10T00:00:00Z", 0, "2026-12-12T20:00:00Z > 2026-12-13T00:00:00Z",
			},
		},
		"Without a rule and a default no window exists": {
			Policy{}, moment{europe, "2026-12-10T00:00:00Z", 0, "never"},
		},
		"A leap day has its window": {
			weekly, moment{europe, "2032-02-28T22:00:00Z", 0, "2032-02-28T21:00:00Z > 2032-02-29T00:00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.ask(t, c.policy) })
	}
}

// TestKymasOwnPolicies queries the policies that lifecycle-manager reads with the cases of its own resolver tests.
func TestKymasOwnPolicies(t *testing.T) {
	folder := "../../../shared/realworld/windows"
	if _, err := os.Stat(folder); err != nil {
		t.Skip("shared/realworld is not beside this checkout")
	}
	britain := Runtime{Region: "uksouth-vikings"}
	for name, c := range map[string]struct {
		file    string
		moments []moment
		remarks []string // the beginning of each
	}{
		"The policy in use": {"policy.json", []moment{
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
			// "central│us" is not an alternative: Kyma's file contains a table's border there.
			{
				Runtime{Region: "centralindia"}, "2026-11-18T12:00:00Z", 20 * time.Minute,
				"2026-11-21T21:00:00Z > 2026-11-21T23:00:00Z",
			},
		}, []string{"rules[3].match.region: "}},
		"The rules of dates": {"ruleset-1.json", []moment{
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
		}, []string{"rules[5].windows[1].end: ", "default: timeBegin and timeEnd"}},
		"The empty policy": {
			"ruleset-2.json", []moment{{britain, "2024-10-10T22:05:00Z", 0, "never"}}, []string{"default: is required"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := load(t, filepath.Join(folder, c.file))
			for _, m := range c.moments {
				m.ask(t, policy)
			}
			if len(policy.Remarks) != len(c.remarks) {
				t.Fatalf("remarks %q, want %q", policy.Remarks, c.remarks)
			}
			for i, want := range c.remarks {
				if !strings.HasPrefix(policy.Remarks[i], want) {
					t.Errorf("remark %q, want %q", policy.Remarks[i], want)
				}
			}
		})
	}
}
