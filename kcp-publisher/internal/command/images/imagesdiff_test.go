package images

import (
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
)

func TestImagesSinceAndUntilAreParsed(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		since, until, format, want, refuse string
	}{
		"no --since":                 {want: "none"},
		"a period with only a start": {since: "2026-11-01", want: "2026-11-01T00:00:00Z 2026-11-26T12:00:00Z"},
		"a period with a start and an end": {
			since: "2026-11-01T02:00:00+02:00", until: "2026-11-02", want: "2026-11-01T00:00:00Z 2026-11-02T00:00:00Z",
		},
		"an end without a start": {until: "2026-11-01", refuse: "--until requires --since"},
		"a start in the future":  {since: "2026-12-01", refuse: "must be before the end of the period"},
		"an invalid start": {
			since: "yesterday", refuse: `--since "yesterday": must be a time such as 2026-11-01`,
		},
		"an invalid end":   {since: "2026-11-01", until: "now", refuse: `--until "now"`},
		"SPDX output":      {since: "2026-11-01", format: formatSPDX, refuse: "does not support -o"},
		"CycloneDX output": {since: "2026-11-01", format: formatCycloneDX, refuse: "does not support -o"},
	} {
		f := &imagesFlags{since: c.since, until: c.until, format: c.format}
		p, err := f.period(now)
		got := "none"
		if p != nil {
			got = p.since.Format(time.RFC3339) + " " + p.until.Format(time.RFC3339)
		}
		switch {
		case c.refuse == "" && (err != nil || got != c.want):
			t.Errorf("%s: got %s, %v, want %s", name, got, err, c.want)
		case c.refuse != "" && (err == nil || !strings.Contains(err.Error(), c.refuse)):
			t.Errorf("%s: got %v, want %q", name, err, c.refuse)
		}
	}
}

func TestImagesDiffListsChangedAndUnknownImages(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	d := inventory.Difference{Since: at, Until: at.Add(24 * time.Hour)}
	var out strings.Builder
	if drawDifference(&out, d); !strings.Contains(out.String(), "no image changes found") {
		t.Errorf("without changes: got\n%s", &out)
	}
	keda := inventory.Module{Name: "keda", Version: "1.9.0"}
	d.Changes = []inventory.Change{
		{Reference: "lab/keda:9", Module: keda, Added: []string{"a", "b", "c", "d"}, Removed: []string{"z"}},
	}
	d.Unknown = []inventory.Unknown{{Module: keda, Runtimes: 2, Problem: "gone"}}
	for range 5 {
		d.Unread = append(d.Unread, inventory.Unread{Runtime: "berlin", Problem: "pruned"})
	}
	out.Reset()
	drawDifference(&out, d)
	for _, want := range []string{
		"from 2026-11-01T00:00:00Z to 2026-11-02T00:00:00Z", "4: a, b, c, …", "1: z",
		"incomplete: module keda 1.9.0 in 2 runtimes: gone",
		"incomplete: runtime berlin: pruned", "incomplete: 2 more runtimes",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, &out)
		}
	}
}

func TestImagesDiffNamesRuntimesWithoutAKyma(t *testing.T) {
	for want, d := range map[string]inventory.Difference{
		"not compared: 4 runtimes without a Kyma: a, b, c, …": {WithoutKyma: []string{"a", "b", "c", "d"}},
		"not compared: 1 runtime without a Kyma: a":           {WithoutKyma: []string{"a"}},
		"because they are unknown: listing is not allowed":    {WithoutKymaProblem: "listing is not allowed"},
	} {
		var out strings.Builder
		if drawDifference(&out, d); !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, &out)
		}
	}
}
