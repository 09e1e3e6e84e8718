// Package kymaschema says what the API server would say of a Kyma: by the schema of the chart's own CustomResourceDefinition, with the API
// server's own validation. A value that nobody validated goes in, such as what a runtime reports; the first thing that is wrong with it comes
// out, or nothing. It is pure.
package kymaschema

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/charts"
)

// Schema is that of a Kyma in the version that is stored.
type Schema struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator // nil without rules
}

// New reads the schema from the chart.
func New() (*Schema, error) {
	file, err := charts.PublisherCRDs.ReadFile("kcp-publisher/files/crds/operator.kyma-project.io_kymas.yaml")
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(file, &crd); err != nil {
		return nil, fmt.Errorf("CustomResourceDefinition of Kymas: %w", err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Name != v1beta2.GroupVersion.Version {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return nil, fmt.Errorf("CustomResourceDefinition of Kymas: %w", err)
		}
		structural, err := schema.NewStructural(&internal)
		if err != nil {
			return nil, fmt.Errorf("CustomResourceDefinition of Kymas: %w", err)
		}
		validator, _, err := validation.NewSchemaValidator(&internal)
		if err != nil {
			return nil, fmt.Errorf("CustomResourceDefinition of Kymas: %w", err)
		}
		return &Schema{structural: structural, validator: validator, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
	}
	return nil, fmt.Errorf("CustomResourceDefinition of Kymas: has no version %s", v1beta2.GroupVersion.Version)
}

// Check returns the first thing that the API server would refuse in a Kyma with these parts, naming its field; defaults are set as it sets
// them. Without a spec only the modules are checked.
func (s *Schema) Check(spec *v1beta2.KymaSpec, modules []v1beta2.ModuleStatus) error {
	object := &v1beta2.Kyma{Status: v1beta2.KymaStatus{Modules: modules}}
	if spec != nil {
		object.Spec = *spec
	}
	kyma, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	if spec == nil {
		delete(kyma, "spec")
	}
	defaulting.Default(kyma, s.structural)
	found := validation.ValidateCustomResource(nil, kyma, s.validator)
	if len(found) == 0 {
		found = listtype.ValidateListSetsAndMaps(nil, s.structural, kyma)
	}
	if len(found) == 0 && s.rules != nil {
		// What was not valid so far is not evaluated, as in the API server.
		found, _ = s.rules.Validate(context.Background(), nil, s.structural, kyma, nil, celconfig.RuntimeCELCostBudget)
	}
	if len(found) == 0 {
		return nil
	}
	return told(found[0])
}

// told says what is wrong in words of bounded length: value and detail are whatever somebody wrote.
func told(wrong *field.Error) error {
	const mostQuoted, mostDetail = 64, 256
	value, detail := "", bundle.Bounded(wrong.Detail, mostDetail)
	if text, isText := wrong.BadValue.(string); isText {
		value = bundle.Quote(text, mostQuoted) + ": "
	}
	if detail == "" {
		detail = strings.ToLower(wrong.Type.String())
	}
	return fmt.Errorf("%s: %s%s", wrong.Field, value, detail)
}
