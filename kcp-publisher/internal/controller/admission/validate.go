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

func validateTemplate(_ context.Context, request admission.Request) admission.Response {
	var template v1beta2.ModuleTemplate
	if err := json.Unmarshal(request.Object.Raw, &template); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if err := checkTemplate(&template); err != nil {
		return admission.Denied(err.Error())
	}
	return admission.Allowed("")
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
