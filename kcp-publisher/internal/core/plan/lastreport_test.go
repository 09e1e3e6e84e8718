package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestLastReportTimeIsArrivalOrCreationTime(t *testing.T) {
	arrived := metav1.NewTime(noon)
	at := func(reportedAt time.Time, recorded *metav1.Time) *v1beta2.ObservedBundle {
		return &v1beta2.ObservedBundle{Time: metav1.NewTime(reportedAt), Heard: recorded}
	}
	for name, c := range map[string]struct {
		observed *v1beta2.ObservedBundle
		carried  string
		want     time.Time
	}{
		"zero for a runtime that never reported":   {nil, "", time.Time{}},
		"arrival time of the report":               {at(noon.Add(-time.Hour), &arrived), "", noon},
		"arrival time despite the runtime's clock": {at(noon.AddDate(1, 0, 0), &arrived), "", noon},
		"creation time of a hand-carried report": {
			at(noon.AddDate(0, 0, -60), &arrived), v1beta2.True, noon.AddDate(0, 0, -60),
		},
		"arrival time of a hand-carried future report": {at(noon.AddDate(1, 0, 0), &arrived), "2160h", noon},
		"arrival time with an invalid annotation":      {at(noon.Add(-time.Hour), &arrived), "always", noon},
		"creation time without an arrival time":        {at(noon.Add(-time.Hour), nil), "", noon.Add(-time.Hour)},
	} {
		kyma := readyKyma("one")
		kyma.Status.Runtime.Observed = c.observed
		if c.carried != "" {
			kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: c.carried}
		}
		if got := LastReportTime(kyma); !got.Equal(c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		runtime := moduleRuntime(kyma, "one", "keda", LastReport(kyma, nil, time.Time{}))
		if got := runtime.LastReport.KnownAt; !got.Equal(c.want) {
			t.Errorf("%s: rollouts use %s, want %s", name, got, c.want)
		}
	}
}

// Only a report that does not omit modules confirms a removal.
func TestModuleOmittedFromReportStaysInRemovals(t *testing.T) {
	report := &bundle.AcceptedReport{Report: bundle.Report{Observed: &bundle.Observed{Digest: "sha256:newest"}}}
	kyma := readyKyma("one")
	published := PublishedBundle{
		Digest: "sha256:newest", Predicate: bundle.Predicate{Deleting: true, Removals: []string{"mail"}},
	}
	kyma.DeletionTimestamp = &metav1.Time{Time: noon}
	removed := func() []string {
		runtime := Rules{}.Runtime(kyma, report)
		return after(&published).lastStatements(nil).nextRemovals(&published, nil, Runtime{
			Installed: runtime.Installed, Observed: runtime.Observed, OmitsModules: runtime.OmitsModules,
		})
	}
	if reason, _ := FinalizeReason(kyma, published, report, time.Hour, noon); reason != v1beta2.ReasonRuntimeEmpty ||
		len(removed()) != 0 {
		t.Errorf("complete report: got reason %q and removals %v, want %s and none", reason, removed(),
			v1beta2.ReasonRuntimeEmpty)
	}
	report.Truncated = &bundle.Truncated{Modules: 1}
	if reason, _ := FinalizeReason(kyma, published, report, time.Hour, noon); reason != "" || len(removed()) != 1 {
		t.Errorf("truncated report: got reason %q and removals %v, want no reason and one removal", reason, removed())
	}
}
