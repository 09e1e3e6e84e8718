package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const allowedSilence = 30 * time.Minute

func TestCarriedAnnotationSetsTheSilenceTimeout(t *testing.T) {
	const day = 24 * time.Hour
	for annotation, want := range map[string]struct {
		allowed time.Duration
		carried bool
		problem string
	}{
		"":                  {allowedSilence, false, ""},
		"false":             {allowedSilence, false, ""},
		"true":              {90 * day, true, ""},
		"720h":              {30 * day, true, ""},
		"8784h":             {366 * day, true, ""},
		"8785h":             {allowedSilence, false, "at most 8784h"},
		"0s":                {allowedSilence, false, "must be true, or a duration"},
		"-1h":               {allowedSilence, false, "must be true, or a duration"},
		"silence of a year": {allowedSilence, false, "must be true, or a duration"},
	} {
		kyma := &v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta2.AnnotationCarried: annotation}},
		}
		allowed, carried, err := Rules{SilenceTimeout: allowedSilence}.SilenceTimeoutFor(kyma)
		if allowed != want.allowed || carried != want.carried || (err != nil) != (want.problem != "") {
			t.Errorf("annotation %q: got %s, carried %t, %v, want %s, %t", annotation, allowed, carried, err,
				want.allowed,
				want.carried)
		}
		if err != nil &&
			(!strings.Contains(err.Error(), want.problem) ||
				!strings.Contains(err.Error(), v1beta2.AnnotationCarried)) {
			t.Errorf("annotation %q: got %v, want an error with the annotation's name and %q", annotation, err,
				want.problem)
		}
	}
}

// A reader of the status does not know whether a publisher is running.
func TestStatusIsOutdatedADayAfterTheRecordedReport(t *testing.T) {
	for name, c := range map[string]struct {
		recorded          time.Duration // before noon
		status            metav1.ConditionStatus
		carried           string
		reporting, silent bool
		shows, isOutdated bool
	}{
		"recent report":            {time.Minute, metav1.ConditionTrue, "", true, false, true, false},
		"report within the limit":  {25 * time.Hour, metav1.ConditionTrue, "", true, false, true, false},
		"report after the limit":   {25*time.Hour + 1, metav1.ConditionTrue, "", true, false, false, true},
		"silent runtime":           {72 * time.Hour, metav1.ConditionFalse, "", false, true, false, false},
		"old report from a file":   {72 * time.Hour, metav1.ConditionTrue, v1beta2.True, false, false, true, false},
		"runtime without a status": {0, "", "", false, false, false, false},
	} {
		kyma := &v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta2.AnnotationCarried: c.carried}},
		}
		if c.status != "" {
			at, reporting := metav1.NewTime(noon.Add(-c.recorded)), metav1.Condition{
				Type: v1beta2.ConditionReporting, Status: c.status, Reason: v1beta2.ReasonReported,
			}
			switch {
			case c.status == metav1.ConditionFalse:
				reporting.Reason = v1beta2.ReasonSilent
			case c.carried != "":
				reporting.Reason = v1beta2.ReasonCarried
			}
			kyma.Status.Conditions = []metav1.Condition{reporting}
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{Observed: &v1beta2.ObservedBundle{Time: at, Heard: &at}}
		}
		if got := IsReporting(kyma); got != c.reporting {
			t.Errorf("%s: IsReporting returns %t, want %t", name, got, c.reporting)
		}
		if got := IsSilent(kyma.Status.Conditions); got != c.silent {
			t.Errorf("%s: IsSilent returns %t, want %t", name, got, c.silent)
		}
		if got := ShowsReporting(kyma, noon); got != c.shows {
			t.Errorf("%s: ShowsReporting returns %t, want %t", name, got, c.shows)
		}
		if got := IsOutdated(kyma, noon); got != c.isOutdated {
			t.Errorf("%s: IsOutdated returns %t, want %t", name, got, c.isOutdated)
		}
		if got := OutdatedAfter(kyma); c.isOutdated && !got.Before(noon) || c.reporting && c.shows && got.Before(noon) {
			t.Errorf("%s: OutdatedAfter returns %s, want a time that agrees with IsOutdated", name, got)
		}
	}
}
