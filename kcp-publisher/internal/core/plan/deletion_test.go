package plan

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestDeletedKymaIsFinalizedAfterItsRuntimeWasNotified(t *testing.T) {
	kyma := readyKyma("one")
	kyma.DeletionTimestamp, kyma.Labels = &metav1.Time{Time: noon},
		map[string]string{v1beta2.LabelForceDeletion: v1beta2.True}
	if reason, _ := FinalizeReason(kyma, PublishedBundle{}, nil, time.Hour, noon.Add(2*time.Hour)); reason != "" {
		t.Errorf("finalizable before the runtime was notified: got %s", reason)
	}
	if reason, _ := FinalizeReason(kyma, PublishedBundle{Predicate: bundle.Predicate{Deleting: true}}, nil, time.Hour,
		noon); reason != v1beta2.ReasonDeletionForced {
		t.Errorf("forced deletion of a notified runtime: got %q, want %s", reason, v1beta2.ReasonDeletionForced)
	}
	refused := kymaOf("two")
	refused.DeletionTimestamp = &metav1.Time{Time: noon}
	silent := &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{}}
	gone := map[string]string{v1beta2.LabelRuntimeGone: v1beta2.True}
	for name, c := range map[string]struct {
		status *v1beta2.RuntimeStatus
		labels map[string]string
		after  time.Duration
		want   string
	}{
		"Kyma without a bundle":         {nil, nil, 0, v1beta2.ReasonNothingToRemove},
		"runtime that applied a bundle": {readyKyma("one").Status.Runtime, nil, 0, ""},
		"runtime that never reported":   {silent, nil, 0, v1beta2.ReasonRuntimeNeverReported},
		"runtime whose cluster is gone": {readyKyma("one").Status.Runtime, gone, 0, v1beta2.ReasonRuntimeGone},
		"deletion longer than its timeout": {
			readyKyma("one").Status.Runtime, nil, 2 * time.Hour, v1beta2.ReasonDeletionTimeout,
		},
	} {
		refused.Status.Runtime, refused.Labels = c.status, c.labels
		if reason, _ := FinalizeReasonRefused(refused, nil, time.Hour, noon.Add(c.after)); reason != c.want {
			t.Errorf("%s: got %q, want %q", name, reason, c.want)
		}
	}
}

func TestDeletionTimeoutStartsWithTheLastBundle(t *testing.T) {
	kyma := readyKyma("one")
	kyma.DeletionTimestamp = &metav1.Time{Time: noon}
	last := PublishedBundle{Predicate: bundle.Predicate{Deleting: true, IssuedAt: noon.Add(72 * time.Hour)}}
	for after, want := range map[time.Duration]string{72 * time.Hour: "", 74 * time.Hour: v1beta2.ReasonDeletionTimeout} {
		if reason, _ := FinalizeReason(kyma, last, nil, time.Hour, noon.Add(after)); reason != want {
			t.Errorf("after %s: got %q, want %q", after, reason, want)
		}
	}
}

func TestDeletedKymaDoesNotWaitForDeletedCluster(t *testing.T) {
	kyma := readyKyma("one")
	if reason, _ := FinalizeReasonUnnotified(kyma); reason != "" {
		t.Errorf("existing cluster: got %s", reason)
	}
	kyma.DeletionTimestamp, kyma.Labels = &metav1.Time{Time: noon},
		map[string]string{v1beta2.LabelRuntimeGone: v1beta2.True}
	for name, published := range map[string]PublishedBundle{"runtime that was not notified": {},
		"runtime that was notified": {Predicate: bundle.Predicate{Deleting: true}}} {
		reason, message := FinalizeReason(kyma, published, nil, time.Hour, noon)
		if reason != v1beta2.ReasonRuntimeGone || !strings.Contains(message, v1beta2.LabelRuntimeGone) {
			t.Errorf("%s: got %s: %s, want %s", name, reason, message, v1beta2.ReasonRuntimeGone)
		}
	}
	kyma.Labels[v1beta2.LabelRuntimeGone] = "soon"
	if reason, _ := FinalizeReasonUnnotified(kyma); reason != "" {
		t.Errorf("other label value: got %s", reason)
	}
}

func TestInvalidAnnotationsDoNotBlockDeletion(t *testing.T) {
	rules := Rules{Settings: bundle.Settings{PollInterval: metav1.Duration{Duration: time.Minute}}}
	kyma := readyKyma("one")
	kyma.Annotations = map[string]string{
		v1beta2.AnnotationAutonomy: "Nonsense", v1beta2.AnnotationAgentImage: "latest",
		v1beta2.AnnotationMaintenanceWindows: "{",
	}
	if _, err := rules.Request(kyma, nil); err == nil {
		t.Error("invalid annotations of a Kyma that is not deleted are accepted")
	}
	kyma.DeletionTimestamp = &metav1.Time{Time: noon}
	request, err := rules.Request(kyma, nil)
	if err != nil || !request.IsDeleting || !reflect.DeepEqual(request.Settings, rules.Settings) {
		t.Errorf("deleted Kyma: got request %+v, %v, want the fleet's settings", request, err)
	}
}

func TestDeletedKymaIgnoresChangedRuntimeID(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Labels = map[string]string{v1beta2.LabelRuntimeID: "other"}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: "one"}
	taker := kymaOf("two")
	taker.Labels = map[string]string{v1beta2.LabelRuntimeID: "other"}
	owners := NewOwners([]v1beta2.Kyma{*kyma, *taker})
	err := owners.Check(kyma)
	if err == nil ||
		!strings.Contains(err.Error(),
			"delete the Kyma, which removes all modules from one, and create a Kyma for other") {
		t.Errorf("Kyma with a changed runtime ID: got %v, want the fix in the error", err)
	}
	if err := owners.Check(taker); err != nil {
		t.Errorf("Kyma of the other runtime: %v", err)
	}
	kyma.DeletionTimestamp = &metav1.Time{Time: noon}
	if id := RuntimeID(kyma); id != "one" {
		t.Errorf("deleted Kyma: got runtime ID %s, want one", id)
	}
	if err := NewOwners([]v1beta2.Kyma{*kyma, *taker}).Check(kyma); err != nil {
		t.Errorf("the deleted Kyma is refused: %v", err)
	}
}
