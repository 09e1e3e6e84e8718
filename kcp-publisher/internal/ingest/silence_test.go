package ingest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestWhoCannotBeHeardFallsSilentToo(t *testing.T) {
	s := healthy()
	status := s.status()
	if after, silent := Unheard(status, 3, silence, noon.Add(silence-time.Minute)); silent || !reflect.DeepEqual(after, status) {
		t.Errorf("within the allowed silence: %v, %s", silent, outline(after))
	}
	later := noon.Add(silence)
	after, silent := Unheard(status, 3, silence, later)
	want := strings.Join([]string{"Warning",
		"not Ready (NotReady): the last report is of 2026-05-04T11:59:00Z, more than the allowed 30m0s ago",
		"not Reporting (Silent): the last report is of 2026-05-04T11:59:00Z, more than the allowed 30m0s ago",
		"keda@1.0.0 Ready", "mail@1.0.0 Ready"}, "\n")
	if got := sorted(outline(after)); !silent || got != sorted(want) {
		t.Errorf("got\n%s\nwant\n%s", got, sorted(want))
	}
	if !after.LastOperation.LastUpdateTime.Time.Equal(later) {
		t.Errorf("last operation is %+v", after.LastOperation)
	}
	if again, _ := Unheard(after, 3, silence, later.Add(time.Hour)); !reflect.DeepEqual(again, after) {
		t.Errorf("a longer outage writes anew: %s", outline(again))
	}
	// What is heard once the registry is back is judged by Status, and must not find another silence to write.
	s.before = after
	if judged := s.later(silence).status(); !reflect.DeepEqual(judged, after) {
		t.Errorf("the registry is back and the runtime is as silent:\n%s\nbefore it was\n%s", outline(judged), outline(after))
	}
}

func TestWhoseReportsAreCarriedIsNotFailing(t *testing.T) {
	const season = 90 * 24 * time.Hour
	carried := func(f *Facts) { f.Silence, f.Carried = season, true }
	status := healthy().with(carried).later(season - time.Minute).status()
	reporting := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReporting)
	if status.State != v1beta2.StateReady || reporting.Status != metav1.ConditionTrue || reporting.Reason != "Carried" ||
		reporting.Message != "reports are carried by hand: what is known is of 2026-05-04T11:59:00Z" {
		t.Errorf("89 days later: %s, %+v", status.State, reporting)
	}
	onItsWay := "bundle 7 is still to be carried to the runtime, or its report back"
	status = healthy().with(carried).with(reportedEarlierBundle).status()
	accepted := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionAccepted)
	ready := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReady)
	if status.State != v1beta2.StateProcessing || accepted.Reason != "Carried" || accepted.Message != onItsWay || ready.Message != onItsWay {
		t.Errorf("while a bundle is on its way: %s, %+v, %+v", status.State, accepted, ready)
	}
	status = healthy().with(carried).later(season).status()
	if reporting := meta.FindStatusCondition(status.Conditions, v1beta2.ConditionReporting); status.State != v1beta2.StateWarning || reporting.Reason != "Silent" {
		t.Errorf("longer than a season: %s, %+v", status.State, reporting)
	}
}

func TestSilenceHidesNoWorseTrouble(t *testing.T) {
	status := healthy().with(func(f *Facts) { f.PublishError = errors.New("runtime id is taken") }).status()
	after, _ := Unheard(status, 3, silence, noon.Add(time.Hour))
	if ready := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReady); after.State != v1beta2.StateError || ready.Message != "runtime id is taken" {
		t.Errorf("got %s", outline(after))
	}
}

func TestWhoHasNeverReportedStaysSo(t *testing.T) {
	status := healthy().with(nothingReported).status()
	if after, silent := Unheard(status, 3, silence, noon.Add(time.Hour)); silent || !reflect.DeepEqual(after, status) {
		t.Errorf("got %v, %s", silent, outline(after))
	}
	if _, silent := Unheard(v1beta2.KymaStatus{}, 1, silence, noon); silent {
		t.Error("a Kyma without a status is silent")
	}
}

func TestAReportThatCannotBeReadIsToldWithTheSilenceItCauses(t *testing.T) {
	denied := func(f *Facts) { f.ReportUnread = errors.New("the registry answers 403 Forbidden") }
	for name, c := range map[string]struct {
		scene *scene
		want  string
	}{
		"not while the last one is fresh":     {healthy().with(denied), ""},
		"after the allowed silence":           {healthy().with(denied).later(time.Hour), "the last report is of 2026-05-04T11:59:00Z, more than the allowed 30m0s ago, and its report cannot be read: the registry answers 403 Forbidden"},
		"at once when there has been no word": {healthy().with(nothingReported).with(denied), "the runtime has never reported, and its report cannot be read: the registry answers 403 Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if c := meta.FindStatusCondition(c.scene.status().Conditions, v1beta2.ConditionReporting); c.Status != "True" {
				got = c.Message
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// sorted makes the order of conditions, which says nothing, irrelevant.
func sorted(lines string) string {
	all := strings.Split(lines, "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}
