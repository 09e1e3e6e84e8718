package plan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

func TestInvalidKymaErrorsHaveReasons(t *testing.T) {
	annotated := func(key, value string) *v1beta2.Kyma {
		return &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Name: "one", Annotations: map[string]string{key: value}}}
	}
	request := func(k *v1beta2.Kyma) error {
		_, err := Rules{}.Request(k, nil)
		return err
	}
	named := func(name, id, began string) *v1beta2.Kyma {
		return &v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1beta2.LabelRuntimeID: id}},
			Status:     v1beta2.KymaStatus{Runtime: &v1beta2.RuntimeStatus{ID: began}},
		}
	}
	owner := named("a", "r-1", "")
	_, _, carried := Rules{}.SilenceTimeoutFor(annotated(v1beta2.AnnotationCarried, "soon"))
	phase := annotated(v1beta2.AnnotationTakeoverPhase, "later")
	phase.Labels = map[string]string{v1beta2.LabelTakeover: v1beta2.TakeoverActive}
	for name, c := range map[string]struct {
		err  error
		want reason.Reason
	}{
		"invalid pins": {request(annotated(v1beta2.AnnotationPinnedVersions, "keda:1")), reason.PinsInvalid},
		"invalid maintenance windows": {
			request(annotated(v1beta2.AnnotationMaintenanceWindows, "{")), reason.AnnotationInvalid,
		},
		"invalid agent image": {
			request(annotated(v1beta2.AnnotationAgentImage, "latest")), reason.AnnotationInvalid,
		},
		"invalid allowed silence": {carried, reason.AnnotationInvalid},
		"invalid takeover phase":  {request(phase), reason.AnnotationInvalid},
		"runtime ID in use":       {Owners{"r-1": owner}.Check(named("b", "r-1", "")), reason.DuplicateRuntimeID},
		"runtime ID changed":      {Owners{}.Check(named("b", "r-2", "r-1")), reason.RuntimeIDChanged},
		"runtime ID invalid":      {Owners{}.Check(named("b", "Ä", "")), reason.RuntimeIDInvalid},
	} {
		if got := reason.Of(c.err); got != c.want {
			t.Errorf("%s: got reason %q of error %v, want %q", name, got, c.err, c.want)
		}
	}
}
