// Package kymaschema validates the parts of a Kyma that a runtime reports, as the API server would. It does not perform
// I/O.
package kymaschema

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/schema/crdschema"
)

// Schema is the schema of the Kyma CRD's storage version.
type Schema struct{ *crdschema.Schema }

// New reads the Kyma schema from the chart.
func New() (*Schema, error) {
	kymas, err := crdschema.SchemaOf("Kyma")
	return &Schema{kymas}, err
}

// Check returns an error if the API server would reject a Kyma with this spec and these modules in its status. The
// error names the first invalid field. Check sets defaults before it validates the spec. If spec is nil, it checks only
// the modules.
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
