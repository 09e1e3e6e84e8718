package admission

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/course"
)

// validateCourse rejects a RolloutPolicy or a Rollout with invalid waves or failure settings. It accepts an update that
// does not change the waves, so that an operator can still pause or abort a Rollout that an older publisher accepted.
func validateCourse(_ context.Context, request admission.Request) admission.Response {
	var before, after struct {
		Spec fleet.Course `json:"spec"`
	}
	if err := decodeObjects(request, &before, &after); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if len(request.OldObject.Raw) > 0 && equality.Semantic.DeepEqual(before.Spec.Waves, after.Spec.Waves) {
		return admission.Allowed("")
	}
	if err := course.Validate(after.Spec); err != nil {
		return admission.Denied(err.Field + ": " + err.Detail)
	}
	return admission.Allowed("").WithWarnings(course.Warnings(after.Spec)...)
}
