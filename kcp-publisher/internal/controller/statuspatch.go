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

// statusPatch is a merge patch of a Kyma's status relative to its previous state, before. It equals the patch of
// client.MergeFrom but is cheaper. client.MergeFrom encodes and decodes both whole Kymas, although the spec never
// differs and the modules rarely do.
//
// The patch only applies to the same version of the Kyma. Otherwise a publisher that does not yet know about a new
// leader would overwrite newer data.
type statusPatch struct{ before *v1beta2.Kyma }

// Type returns the type of the patch.
func (p statusPatch) Type() types.PatchType { return types.MergePatchType }

// Data returns the patch from the previous status to the Kyma's status.
func (p statusPatch) Data(object client.Object) ([]byte, error) {
	kyma, is := object.(*v1beta2.Kyma)
	if !is {
		return nil, fmt.Errorf("patch the status of %T: must be a Kyma", object)
	}
	before, after := p.before.Status, kyma.Status
	modules := after.Modules
	same := equality.Semantic.DeepEqual(before.Modules, modules)
	if same || len(modules) > 0 {
		before.Modules, after.Modules = nil, nil
	}
	version := metav1.ObjectMeta{ResourceVersion: p.before.ResourceVersion}
	patch, err := client.MergeFromWithOptions(&v1beta2.Kyma{ObjectMeta: version, Status: before},
		client.MergeFromWithOptimisticLock{}).
		Data(&v1beta2.Kyma{ObjectMeta: version, Status: after})
	if err != nil || same || len(modules) == 0 {
		return patch, err
	}
	return withModules(patch, modules)
}

// withModules returns a merge patch of a status that also replaces its modules. A merge patch always contains a whole
// list.
func withModules(patch []byte, modules []v1beta2.ModuleStatus) ([]byte, error) {
	var changed struct {
		Metadata json.RawMessage            `json:"metadata,omitempty"`
		Status   map[string]json.RawMessage `json:"status,omitempty"`
	}
	if err := json.Unmarshal(patch, &changed); err != nil {
		return nil, fmt.Errorf("decode the status patch: %w", err)
	}
	if changed.Status == nil {
		changed.Status = map[string]json.RawMessage{}
	}
	text, err := json.Marshal(modules)
	if err != nil {
		return nil, fmt.Errorf("encode the modules of a status: %w", err)
	}
	changed.Status["modules"] = text
	return json.Marshal(changed)
}
