// Package crdschema validates control plane objects as the API server would, with the schemas in the chart's
// CustomResourceDefinitions. It does not perform I/O.
package crdschema

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/charts"
)

// Schema is the schema of a kind's storage version.
type Schema struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator // nil if the schema has no CEL rules
}

const folder = "kcp-publisher/files/crds/"

// schemas maps each kind to a function that returns its schema. The function compiles the schema only when it is first
// called, because compiling CEL rules takes time.
var schemas = map[string]func() (*Schema, error){
	"Kyma":              readOnce("operator.kyma-project.io_kymas.yaml"),
	"Manifest":          readOnce("operator.kyma-project.io_manifests.yaml"),
	"ModuleReleaseMeta": readOnce("operator.kyma-project.io_modulereleasemetas.yaml"),
	"ModuleTemplate":    readOnce("operator.kyma-project.io_moduletemplates.yaml"),
	"PromotionPolicy":   readOnce("fleet.kyma-project.io_promotionpolicies.yaml"),
	"Rollout":           readOnce("fleet.kyma-project.io_rollouts.yaml"),
	"RolloutPolicy":     readOnce("fleet.kyma-project.io_rolloutpolicies.yaml"),
	"Watcher":           readOnce("operator.kyma-project.io_watchers.yaml"),
}

// SchemaOf returns the schema of a control plane kind, such as Kyma.
func SchemaOf(kind string) (*Schema, error) {
	if schemas[kind] == nil {
		return nil, fmt.Errorf("the chart has no CustomResourceDefinition for kind %s", kind)
	}
	return schemas[kind]()
}

func readOnce(file string) func() (*Schema, error) {
	return sync.OnceValues(func() (*Schema, error) {
		s, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("read the chart's %s: %w", file, err)
		}
		return s, nil
	})
}

func read(file string) (*Schema, error) {
	data, err := charts.PublisherCRDs.ReadFile(folder + file)
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return nil, err
	}
	for _, version := range crd.Spec.Versions {
		if !version.Storage {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
			version.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return nil, err
		}
		structural, err := schema.NewStructural(&internal)
		if err != nil {
			return nil, err
		}
		validator, _, err := validation.NewSchemaValidator(&internal)
		if err != nil {
			return nil, err
		}
		return &Schema{structural: structural, validator: validator,
			rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
	}
	return nil, errors.New("the CustomResourceDefinition has no storage version")
}

// Default sets an object's defaults as the API server does.
func (s *Schema) Default(object map[string]any) { defaulting.Default(object, s.structural) }

// Problem is a field that the API server would reject, with a message of limited length.
type Problem struct{ Field, Message string }

func (p *Problem) Error() string { return p.Field + ": " + p.Message }

// Validate returns the problems in an object whose defaults are set.
func (s *Schema) Validate(object map[string]any) []*Problem {
	found := validation.ValidateCustomResource(nil, object, s.validator)
	if len(found) == 0 {
		found = listtype.ValidateListSetsAndMaps(nil, s.structural, object)
	}
	if len(found) == 0 && s.rules != nil {
		found, _ = s.rules.Validate(context.Background(), nil, s.structural, object, nil,
			celconfig.RuntimeCELCostBudget)
	}
	return newProblems(found)
}

// ValidateMeta returns the problems in the metadata of a namespaced object. The namespace can be missing.
func ValidateMeta(object map[string]any) []*Problem {
	whole := unstructured.Unstructured{Object: object}
	meta := metav1.ObjectMeta{
		Name: whole.GetName(), Namespace: cmp.Or(whole.GetNamespace(), metav1.NamespaceDefault),
		Labels: whole.GetLabels(), Annotations: whole.GetAnnotations(),
		Finalizers: whole.GetFinalizers(),
	}
	return newProblems(apimachineryvalidation.ValidateObjectMeta(&meta, true, apimachineryvalidation.NameIsDNSSubdomain,
		field.NewPath("metadata")))
}

func newProblems(found field.ErrorList) []*Problem {
	all := make([]*Problem, 0, len(found))
	for _, wrong := range found {
		all = append(all, &Problem{Field: wrong.Field, Message: quoteValue(wrong) + problemDetail(wrong)})
	}
	return all
}

func quoteValue(wrong *field.Error) string {
	const most = 64
	switch value := wrong.BadValue.(type) {
	case string:
		if wrong.Type != field.ErrorTypeRequired && wrong.Type != field.ErrorTypeTypeInvalid {
			return bundle.Quote(value, most) + ": "
		}
	case map[string]any:
		if data, err := json.Marshal(value); err == nil && wrong.Type == field.ErrorTypeDuplicate {
			return bundle.Bounded(string(data), most) + ": "
		}
	}
	return ""
}

func problemDetail(wrong *field.Error) string {
	const most = 256
	if text := strings.TrimPrefix(wrong.Detail, wrong.Field+" in body "); text != "" {
		return bundle.Bounded(text, most)
	}
	switch wrong.Type {
	case field.ErrorTypeRequired:
		return "is required"
	case field.ErrorTypeDuplicate:
		return "appears twice"
	}
	return strings.ToLower(wrong.Type.String())
}
