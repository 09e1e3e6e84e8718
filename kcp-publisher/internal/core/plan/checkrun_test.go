package plan

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

func TestAnnotationRequestsACheckRun(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Annotations = map[string]string{
		v1beta2.AnnotationCheckRun: `{"id":"7","module":"keda","checks":[{"name":"works","cel":{"expression":"true"}}]}`,
	}
	request, err := Rules{}.Request(kyma, nil)
	if err != nil || request.Settings.CheckRun == nil || request.Settings.CheckRun.ID != "7" {
		t.Errorf("got check run %+v, %v, want check run 7", request.Settings.CheckRun, err)
	}
	kyma.Annotations[v1beta2.AnnotationCheckRun] = `{"id":"7"}`
	_, err = Rules{}.Request(kyma, nil)
	if reason.Of(err) != reason.AnnotationInvalid ||
		!strings.Contains(err.Error(), "annotation kyma-pull.dev/check-run: check run: module") {
		t.Errorf("incomplete annotation: got %v", err)
	}
	delete(kyma.Annotations, v1beta2.AnnotationCheckRun)
	if request, err := (Rules{}).Request(kyma, nil); err != nil || request.Settings.CheckRun != nil {
		t.Errorf("without the annotation: got %+v, %v, want no check run", request.Settings.CheckRun, err)
	}
}
