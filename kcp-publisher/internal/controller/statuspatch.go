package controller

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// statusPatch is the merge patch from the status of this Kyma, as client.MergeFrom makes it. That one encodes and
// decodes both whole Kymas to find what differs, of which most never does: the spec, and the modules while a bundle is
// only noted.
//
// It holds for the version of the Kyma before only. A publisher that does not know yet that another one leads would
// write what it last knew over what is newer.
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
	modules := after.Modules
	same := equality.Semantic.DeepEqual(before.Modules, modules)
	if same || len(modules) > 0 {
		before.Modules, after.Modules = nil, nil
	}
	version := metav1.ObjectMeta{ResourceVersion: p.before.ResourceVersion}
	patch, err := client.MergeFromWithOptions(&v1beta2.Kyma{ObjectMeta: version, Status: before}, client.MergeFromWithOptimisticLock{}).
		Data(&v1beta2.Kyma{ObjectMeta: version, Status: after})
	if err != nil || same || len(modules) == 0 {
		return patch, err
	}
	return withModules(patch, modules)
}

// withModules returns a merge patch of a status that replaces its modules as well: a merge patch has the whole of a
// list that differs.
func withModules(patch []byte, modules []v1beta2.ModuleStatus) ([]byte, error) {
	var changed struct {
		Metadata json.RawMessage            `json:"metadata,omitempty"`
		Status   map[string]json.RawMessage `json:"status,omitempty"`
	}
	if err := json.Unmarshal(patch, &changed); err != nil {
		return nil, fmt.Errorf("patch of a status: %w", err)
	}
	if changed.Status == nil {
		changed.Status = map[string]json.RawMessage{}
	}
	text, err := json.Marshal(modules)
	if err != nil {
		return nil, fmt.Errorf("modules of a status: %w", err)
	}
	changed.Status["modules"] = text
	return json.Marshal(changed)
}
