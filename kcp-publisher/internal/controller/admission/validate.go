package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

// validateTemplate rejects an invalid ModuleTemplate. It accepts an update that does not change the checked content,
// and any update of a deleted object. Otherwise, clients could not remove finalizers or managed fields from an invalid
// object that the API server accepted while the webhook was unavailable.
func validateTemplate(_ context.Context, request admission.Request) admission.Response {
	var before, after v1beta2.ModuleTemplate
	if err := decodeObjects(request, &before, &after); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	isUpdate := len(request.OldObject.Raw) > 0
	if isUpdate && (!after.DeletionTimestamp.IsZero() || catalog.HasSameEntry(&before, &after)) {
		return admission.Allowed("")
	}
	if err := checkTemplate(&after); err != nil {
		return admission.Denied(err.Error())
	}
	return admission.Allowed("")
}

// decodeObjects decodes the object in a request. For an update, it also decodes the object before the update.
func decodeObjects(request admission.Request, before, after any) error {
	if err := json.Unmarshal(request.Object.Raw, after); err != nil {
		return err
	}
	if len(request.OldObject.Raw) == 0 {
		return nil
	}
	return json.Unmarshal(request.OldObject.Raw, before)
}

// checkTemplate returns an error if the ModuleTemplate is invalid and therefore cannot be used in a bundle. The error
// names the invalid field.
func checkTemplate(template *v1beta2.ModuleTemplate) error {
	if err := catalog.CheckTemplate(template); err != nil {
		return err
	}
	inline := bytes.TrimSpace(template.Spec.Descriptor.Raw)
	if slices.Contains([]string{"", "{}", "null"}, string(inline)) {
		return nil
	}
	descriptor, err := ocm.Decode(inline)
	if err != nil {
		return fmt.Errorf("spec.descriptor: %w", err)
	}
	if version := template.Spec.Version; version != "" && version != descriptor.Version {
		return fmt.Errorf("spec.descriptor: version is %s, but spec.version is %s", descriptor.Version, version)
	}
	if _, err := bundle.Select(descriptor); err != nil {
		return fmt.Errorf("spec.descriptor: %w", err)
	}
	return nil
}
