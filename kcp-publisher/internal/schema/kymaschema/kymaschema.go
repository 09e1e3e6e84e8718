// Package kymaschema says what the API server would say of the parts of a Kyma that a runtime reports. They go in as
// they were reported; the first thing that is wrong with them comes out, or nothing. It is pure.
package kymaschema

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/schema/crdschema"
)

// Schema is that of a Kyma in the version that is stored.
type Schema struct{ *crdschema.Schema }

// New reads the schema from the chart.
func New() (*Schema, error) {
	kymas, err := crdschema.Of("Kyma")
	return &Schema{kymas}, err
}

// Check returns the first thing that the API server would refuse in a Kyma with these parts, naming its field; defaults
// are set as it sets them. Without a spec only the modules are checked.
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
	s.Default(kyma)
	if found := s.Validate(kyma); len(found) > 0 {
		return found[0]
	}
	return nil
}
