package control

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// statusPatch is the merge patch from the status of this Kyma, as client.MergeFrom makes it. That one encodes and decodes both whole Kymas to find what
// differs, of which most never does: the spec, and the modules while a bundle is only noted.
type statusPatch struct{ before *v1beta2.Kyma }

// Type returns the kind of patch.
func (p statusPatch) Type() types.PatchType { return types.MergePatchType }

// Data returns what turns the status before into that of the Kyma.
func (p statusPatch) Data(object client.Object) ([]byte, error) {
	kyma, is := object.(*v1beta2.Kyma)
	if !is {
		return nil, fmt.Errorf("patch the status of %T: want a Kyma", object)
	}
	before, after := p.before.Status, kyma.Status
	if equality.Semantic.DeepEqual(before.Modules, after.Modules) {
		before.Modules, after.Modules = nil, nil
	}
	return client.MergeFrom(&v1beta2.Kyma{Status: before}).Data(&v1beta2.Kyma{Status: after})
}
