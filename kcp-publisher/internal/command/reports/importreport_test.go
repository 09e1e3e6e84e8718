package reports

import (
	"math"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

func TestImportReportRefusesOlderReport(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	key, err := trust.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.LoadSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	report := func(sequence int64, at time.Time) bundle.Fetched {
		manifest, err := bundle.ComposeReport(bundle.Report{Runtime: "ship", Sequence: sequence, Time: at}, signer)
		if err != nil {
			t.Fatal(err)
		}
		return bundle.Fetched(manifest)
	}
	last := noon.UnixMilli()
	existing := report(last, noon)
	for name, c := range map[string]struct {
		existing, next bundle.Fetched
		replace, known bool
		want           refusal.Reason
	}{
		"report newer than the imported one": {existing: existing, next: report(last+1, noon)},
		"report that was already imported":   {existing: existing, next: existing, known: true},
		"report older than the imported one": {existing: existing, next: report(last-1, noon), want: refusal.Rollback},
		"older report with --replace":        {existing: existing, next: report(last-1, noon), replace: true},
		"same sequence with other content": {
			existing: existing, next: report(last, noon.Add(time.Second)), want: refusal.Rollback,
		},
		"same sequence with other content and --replace": {
			existing: existing, next: report(last, noon.Add(time.Second)), replace: true,
		},
		"report from a clock that is a year ahead": {
			existing: existing, next: report(last+1, noon.AddDate(1, 0, 0)), want: refusal.NotYetIssued,
		},
		"report with a sequence that is a year ahead": {
			existing: existing, next: report(noon.AddDate(1, 0, 0).UnixMilli(), noon), want: refusal.NotYetIssued,
		},
		"report after a forged sequence": {existing: report(math.MaxInt64, noon), next: report(last, noon)},
		"report after a forged time":     {existing: report(last+1, noon.AddDate(1, 0, 0)), next: report(last, noon)},
	} {
		t.Run(name, func(t *testing.T) {
			place := store.NewMemory()
			if err := store.PushReport(t.Context(), place, "ship",
				bundle.NewBlob(c.existing.Descriptor.MediaType, c.existing.Bytes)); err != nil {
				t.Fatal(err)
			}
			taken, err := importReport(t.Context(), place, c.next, noon, c.replace)
			if refused := refusal.Of(err); c.want == "" && err != nil ||
				c.want != "" && (refused == nil || refused.Reason != c.want) {
				t.Fatalf("got %v, want the refusal %q", err, c.want)
			}
			if taken.Known != c.known {
				t.Errorf("got known %t for the imported report, want %t", taken.Known, c.known)
			}
			repository, err := place.Repository(t.Context(), bundle.ReportRepository("ship"))
			if err != nil {
				t.Fatal(err)
			}
			latest, err := store.Fetch(t.Context(), repository, bundle.TagLatest)
			if err != nil {
				t.Fatal(err)
			}
			want := c.next.Descriptor.Digest
			if c.want != "" {
				want = c.existing.Descriptor.Digest
			}
			if latest.Descriptor.Digest != want {
				t.Errorf("the latest report is %s, want %s", latest.Descriptor.Digest, want)
			}
		})
	}
}
