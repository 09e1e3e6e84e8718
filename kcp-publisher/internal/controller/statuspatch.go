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

// statusPatch is a merge patch of a Kyma's status. It creates the same patch as client.MergeFrom, but faster, because
// it encodes only the status and not the whole Kyma.
//
// The patch contains the Kyma's resource version. A publisher with an outdated Kyma gets a conflict and cannot
// overwrite newer data.
type statusPatch struct{ before *v1beta2.Kyma }

func (p statusPatch) Type() types.PatchType { return types.MergePatchType }

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
	return setModules(patch, modules)
}

// setModules sets the list of modules in a patch. A merge patch must always contain the whole list.
func setModules(patch []byte, modules []v1beta2.ModuleStatus) ([]byte, error) {
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
