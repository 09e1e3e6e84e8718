package follow

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// recordApproved adds the commit's approved removals to those that earlier polls recorded for the same commit. It
// discards other commits' approvals. Only Start's goroutine calls it.
func (f *Follower) recordApproved(commit string, s Survey) {
	next := shard.Approvals{
		Commit: commit, At: time.Now(), Kymas: map[types.UID]bool{}, Modules: map[string]bool{},
	}
	if known := f.approved.Load(); known != nil && known.Commit == commit {
		// Keep the earlier polls' approvals, because those polls may have pruned some of the objects.
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

// recallApproved restores the approvals that an earlier process stored, because that process may have pruned some of
// the objects.
func (f *Follower) recallApproved(ctx context.Context) error {
	if f.RecallApprovals == nil || f.approved.Load() != nil {
		return nil
	}
	known, err := f.RecallApprovals(ctx)
	if err == nil && known.Commit != "" {
		f.approved.Store(&known)
	}
	return err
}
