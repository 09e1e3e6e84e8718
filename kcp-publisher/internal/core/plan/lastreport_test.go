package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestTimeOfTheLastReport(t *testing.T) {
	arrived := metav1.NewTime(noon)
	at := func(reportedAt time.Time, recorded *metav1.Time) *v1beta2.ObservedBundle {
		return &v1beta2.ObservedBundle{Time: metav1.NewTime(reportedAt), Heard: recorded}
	}
	for name, c := range map[string]struct {
		observed *v1beta2.ObservedBundle
		carried  string
		want     time.Time
	}{
		"never":                         {nil, "", time.Time{}},
		"when its report arrived":       {at(noon.Add(-time.Hour), &arrived), "", noon},
		"with any clock of the runtime": {at(noon.AddDate(1, 0, 0), &arrived), "", noon},
		"when it was written, where that is carried": {
			at(noon.AddDate(0, 0, -60), &arrived), v1beta2.True, noon.AddDate(0, 0, -60),
		},
		"when it arrived, where its clock is ahead":    {at(noon.AddDate(1, 0, 0), &arrived), "2160h", noon},
		"an annotation that means nothing changes it":  {at(noon.Add(-time.Hour), &arrived), "always", noon},
		"by its own clock, where nobody noted arrival": {at(noon.Add(-time.Hour), nil), "", noon.Add(-time.Hour)},
	} {
		kyma := living("one")
		kyma.Status.Runtime.Observed = c.observed
		if c.carried != "" {
			kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: c.carried}
		}
		if got := LastReportTime(kyma); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := observed(kyma, "one", "keda", LastReport(kyma, nil, time.Time{})).LastReport; !got.Equal(c.want) {
			t.Errorf("%s: rollouts take it for %s, want %s", name, got, c.want)
		}
	}
}

// TestModuleOmittedFromAReportIsNotRemoved checks that a removal continues until a report lists all modules that exist,
// and that no Kyma is deleted before.
func TestModuleOmittedFromAReportIsNotRemoved(t *testing.T) {
	report := &bundle.AcceptedReport{Report: bundle.Report{Observed: &bundle.Observed{Digest: "sha256:newest"}}}
	kyma := living("one")
	published := Published{
		Digest: "sha256:newest", Predicate: bundle.Predicate{Deleting: true, Removals: []string{"mail"}},
	}
	kyma.DeletionTimestamp = &metav1.Time{Time: noon}
	removed := func() []string {
		runtime := Rules{}.Runtime(kyma, report)
		return after(&published).stated(nil).pending(&published, nil, Runtime{
			Installed: runtime.Installed, Observed: runtime.Observed, LeavesModulesOut: runtime.LeavesModulesOut,
		})
	}
	if reason, _ := Finalizable(kyma, published, report, time.Hour, noon); reason != v1beta2.ReasonRuntimeEmpty ||
		len(removed()) != 0 {
		t.Errorf("with a whole report: %q, to be removed %v", reason, removed())
	}
	report.Truncated = &bundle.Truncated{Modules: 1}
	if reason, _ := Finalizable(kyma, published, report, time.Hour, noon); reason != "" || len(removed()) != 1 {
		t.Errorf("with a report that leaves modules out: %q, to be removed %v", reason, removed())
	}
}
