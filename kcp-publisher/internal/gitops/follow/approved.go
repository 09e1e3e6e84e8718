package follow

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// recordApproved adds the commit's approved removals to those that earlier polls recorded for the same commit. It
// discards other commits' approvals. The time of the approvals is the time of the first one, because a commit can be
// approved long after it was applied. Only Start's goroutine calls it.
func (f *Follower) recordApproved(commit string, s Survey) {
	next := shard.Approvals{
		Commit: commit, At: time.Now(), Kymas: map[types.UID]bool{}, Modules: map[string]bool{},
	}
	if known := f.approved.Load(); known != nil && known.Commit == commit &&
		len(known.Kymas)+len(known.Modules) > 0 {
		// Keep the earlier polls' approvals, because those polls may have pruned some of the objects. A new time would
		// make approvals valid again that were already used.
		next.At = known.At
		maps.Copy(next.Kymas, known.Kymas)
		maps.Copy(next.Modules, known.Modules)
	}
	if s.allowed {
		for _, key := range s.Plan.Prune {
			switch object := s.Live[key]; {
			case object == nil:
			case key.Kind.Kind == kindKyma:
				next.Kymas[object.GetUID()] = true
			case isMandatory(object):
				next.Modules[removedModule(key, object)] = true
			}
		}
		// If another object also makes a module mandatory, the module stays in the runtimes, so the approval does not
		// apply to it.
		for key, object := range s.Live {
			if isMandatory(object) && !slices.Contains(s.Plan.Prune, key) {
				delete(next.Modules, removedModule(key, object))
			}
		}
	}
	f.approved.Store(&next)
}

func removedModule(key Key, object *unstructured.Unstructured) string {
	module, _, _ := unstructured.NestedString(object.Object, "spec", "moduleName")
	return cmp.Or(module, key.Name)
}

// ApprovedAt returns the time when an operator approved a removal for the current commit, or zero. An empty module
// means all modules in the deleted Kyma with this UID.
func (f *Follower) ApprovedAt(kyma types.UID, module string) time.Time {
	return f.Approvals().Of(kyma, module)
}

// Approvals returns the removals that an operator approved for the current commit. It is empty if the approvals belong
// to another commit.
func (f *Follower) Approvals() shard.Approvals {
	approved, current := f.approved.Load(), f.current.Load()
	if approved == nil || current == nil || current.Commit != approved.Commit {
		return shard.Approvals{}
	}
	return *approved
}

// recallApproved restores the approvals that an earlier process stored in the record, because that process may have
// pruned some of the objects. It ignores invalid data instead of returning an error, so that the fleet does not wait
// until an operator repairs the record. Removals without approval wait for an operator anyway.
func (f *Follower) recallApproved(ctx context.Context, r *record) {
	if f.approved.Load() != nil {
		return
	}
	known, err := shard.DecodeApprovals(r.BinaryData[fieldApproved])
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to read the approved removals of the current commit")
		return
	}
	if known.Commit != "" {
		f.approved.Store(&known)
	}
}

// storeApproved adds the approvals to the record. If approvals is nil, it keeps the stored approvals. It omits
// approvals that are too large for the record. After a restart, their removals wait for an operator.
func (r *record) storeApproved(approvals *shard.Approvals) {
	if approvals == nil {
		return
	}
	data, _, err := approvals.Encode()
	if err != nil || len(data) == 0 ||
		len(r.Data[fieldInventory])+len(r.Data[fieldAdded])+len(data) > maxInventoryBytes+maxApprovedBytes {
		delete(r.BinaryData, fieldApproved)
		return
	}
	r.BinaryData = map[string][]byte{fieldApproved: data}
}
