package controller

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
)

func TestAppliedMetricCountsTheFirstReportOfABundle(t *testing.T) {
	status := func(published, observed string, ago time.Duration) v1beta2.KymaStatus {
		r := &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{Digest: published, Time: metav1.NewTime(noon)}}
		if observed != "" {
			r.Observed = &v1beta2.ObservedBundle{Digest: observed, Heard: new(metav1.NewTime(noon.Add(ago)))}
		}
		return v1beta2.KymaStatus{Runtime: r}
	}
	for name, c := range map[string]struct {
		before, after v1beta2.KymaStatus
		want          time.Duration
		is            bool
	}{
		"published bundle is reported": {
			status("b", "a", 0), status("b", "b", 40*time.Second), 40 * time.Second, true,
		},
		"first bundle is reported":       {status("b", "", 0), status("b", "b", time.Minute), time.Minute, true},
		"a different bundle is reported": {status("b", "", 0), status("b", "a", time.Minute), 0, false},
		"bundle was already reported":    {status("b", "b", time.Minute), status("b", "b", time.Hour), 0, false},
		"bundle was reported before it was recorded": {
			status("a", "b", time.Minute), status("b", "b", time.Hour), 0, false,
		},
		"clock was set back": {status("b", "a", 0), status("b", "b", -time.Minute), 0, true},
		"empty statuses":     {v1beta2.KymaStatus{}, v1beta2.KymaStatus{}, 0, false},
	} {
		if took, is := applyTime(c.before, c.after); took != c.want || is != c.is {
			t.Errorf("%s: got %s, %t, want %s, %t", name, took, is, c.want, c.is)
		}
	}
}

func TestSilenceAndRecoveryEmitOneEventEach(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	k := &Kymas{Events: recorder}
	status := func(status metav1.ConditionStatus, reason string) v1beta2.KymaStatus {
		return v1beta2.KymaStatus{
			Conditions: []metav1.Condition{
				{Type: v1beta2.ConditionReporting, Status: status, Reason: reason, Message: "the last report is old"},
			},
		}
	}
	reports, silent, refused := status(metav1.ConditionTrue, v1beta2.ReasonReported),
		status(metav1.ConditionFalse, v1beta2.ReasonSilent), status(metav1.ConditionFalse, v1beta2.ReasonReportRefused)
	for _, step := range []struct {
		before, after v1beta2.KymaStatus
		want          string
	}{
		{reports, reports, ""},
		{reports, silent, "Warning RuntimeSilent runtime one is silent: the last report is old"},
		{silent, silent, ""},
		{silent, refused, ""},
		{silent, reports, "Normal RuntimeHeard runtime one reports again"},
	} {
		k.announceWritten(kymaOf("one"), step.before, step.after)
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if !strings.HasPrefix(got, step.want) || (got == "") != (step.want == "") {
			t.Errorf("from %s to %s: %q, want %q", step.before.Conditions[0].Reason, step.after.Conditions[0].Reason,
				got, step.want)
		}
	}
}

func TestFailureEventsSettingOmitsNormalEvents(t *testing.T) {
	for _, c := range []struct {
		wanted KymaEvents
		kind   string
		want   int
	}{
		{AllEvents, corev1.EventTypeNormal, 1}, {"", corev1.EventTypeNormal, 1},
		{FailureEvents, corev1.EventTypeNormal, 0}, {FailureEvents, corev1.EventTypeWarning, 1},
	} {
		recorder := events.NewFakeRecorder(10)
		k := &Kymas{Options: Options{KymaEvents: c.wanted}, Events: recorder}
		k.emitEvent(kymaOf("one"), c.kind, "Any", "Any", "anything")
		if got := len(recorder.Events); got != c.want {
			t.Errorf("%s Events of type %s: %d, want %d", c.wanted, c.kind, got, c.want)
		}
	}
	// FailureEvents also omits the Event about a runtime that reports again after a silence.
	recorder := events.NewFakeRecorder(10)
	k := &Kymas{Options: Options{KymaEvents: FailureEvents}, Events: recorder}
	reporting := func(status metav1.ConditionStatus, reason string) v1beta2.KymaStatus {
		return v1beta2.KymaStatus{
			Conditions: []metav1.Condition{{Type: v1beta2.ConditionReporting, Status: status, Reason: reason}},
		}
	}
	k.announceWritten(kymaOf("one"), reporting(metav1.ConditionFalse, v1beta2.ReasonSilent),
		reporting(metav1.ConditionTrue, v1beta2.ReasonReported))
	if got := len(recorder.Events); got != 0 {
		t.Errorf("the end of the silence is reported: %s", <-recorder.Events)
	}
}

func TestRootExpiryNoticesAreNotRepeatedByARestart(t *testing.T) {
	recorder := events.NewFakeRecorder(100)
	expires := noon.Add(40 * 24 * time.Hour)
	k := &Keys{Events: recorder, Namespace: "kcp-system"}
	root := trust.Root{Version: 3, Expires: expires}
	var before time.Time
	for now := noon; now.Before(expires.Add(48 * time.Hour)); now = now.Add(time.Hour) {
		if now.Equal(expires.Add(-10 * 24 * time.Hour)) {
			before = time.Time{} // as in another process
		}
		k.announceExpiry(root, before, now)
		before = now
	}
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	if len(got) != len(expiryNotices) {
		t.Fatalf("got %d Events, want %d: %v", len(got), len(expiryNotices), got)
	}
	if !strings.Contains(got[0], "Warning RootExpires root of trust version 3 expires at") ||
		!strings.Contains(got[len(got)-1], "expired at") {
		t.Errorf("got Events %v, want the first before and the last after the expiry", got)
	}
}

func TestUnknownReasonsShareOneMetricSeries(t *testing.T) {
	if got := knownReason("Expired"); got != refusal.Expired {
		t.Errorf("known reason: got label %s, want Expired", got)
	}
	if got := knownReason("any word at all"); got != otherReason {
		t.Errorf("unknown reason: got label %s, want (other)", got)
	}
}

// The previous process has emitted the Events for the report in the status. A new process, which has not read a report
// yet, must not emit them again.
func TestRestartDoesNotRepeatRefusalEvents(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	w := newWaves(t, newSurroundings(t), 1)
	k := &Kymas{Events: recorder, Publisher: w.kymas.Publisher, fleet: fleetstate.New(), Now: time.Now}
	kyma := kymaOf("one")
	accepted := bundle.AcceptedReport{
		Content: "sha256:reported", Report: bundle.Report{
			Runtime: "one", Refused: []bundle.RefusedBundle{{Digest: "sha256:bad", Reason: refusal.Expired}},
		},
	}
	k.announceRefused(kyma, nil, accepted)
	if got := len(recorder.Events); got != 1 {
		t.Fatalf("got %d Events for a new refusal, want 1", got)
	}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Observed: &v1beta2.ObservedBundle{Report: "sha256:reported"}}
	k.announceRefused(kyma, nil, accepted)
	k.announceRefused(kyma, &accepted, accepted)
	if got := len(recorder.Events); got != 1 {
		t.Errorf("got %d Events after a restart and a heartbeat, want 1", got)
	}
	again := accepted
	again.Content, again.Refused = "sha256:again", append(again.Refused, bundle.RefusedBundle{
		Digest: "sha256:worse", Reason: refusal.BadSignature,
	})
	k.announceRefused(kyma, &accepted, again)
	if got := len(recorder.Events); got != 2 {
		t.Errorf("got %d Events after another refusal, want 2", got)
	}
	why := refusal.New(refusal.Expired, "the report has expired")
	kyma.Status.Conditions = []metav1.Condition{{
		Type: v1beta2.ConditionReporting, Status: metav1.ConditionFalse, Reason: v1beta2.ReasonReportRefused,
		Message: "the latest report was refused: " + why.Error(),
	}}
	kyma.Status.Runtime.Reasons = &v1beta2.RuntimeReasons{Report: "Expired"}
	if !showsRefusal(kyma, why) || showsRefusal(kyma, refusal.New(refusal.ForeignKey, "another")) {
		t.Error("showsRefusal does not compare the reason in the status")
	}
}
