package follow

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// approvedRemovals are the removals that an operator approved by allowing one commit to prune objects.
type approvedRemovals struct {
	commit string
	at     time.Time // when the commit was first surveyed
	// kymas contains the UIDs of deleted Kymas. A later Kyma with the same name needs a new approval.
	kymas map[types.UID]bool
	// modules contains the mandatory modules that the commit removes from all runtimes.
	modules map[string]bool
}

// recordApproved records the removals that an operator approved with a commit, so they need no second approval. It
// replaces the removals of any other commit. Only the goroutine of Start calls it.
func (f *Follower) recordApproved(commit string, s Survey) {
	next := approvedRemovals{commit, time.Now(), map[types.UID]bool{}, map[string]bool{}}
	if known := f.approved.Load(); known != nil && known.commit == commit {
		// An earlier pass or poll already pruned some of the objects that this commit removes.
		next.at, next.kymas, next.modules = known.at, maps.Clone(known.kymas), maps.Clone(known.modules)
	}
	if s.allowed {
		for _, key := range s.Plan.Prune {
			switch object := s.Live[key]; {
			case object == nil:
			case key.Kind.Kind == kindKyma:
				next.kymas[object.GetUID()] = true
			case isMandatory(object):
				next.modules[moduleOf(key, object)] = true
			}
		}
		// The approval is about modules without a mandatory definition, not about one of several versions.
		for key, object := range s.Live {
			if isMandatory(object) && !slices.Contains(s.Plan.Prune, key) {
				delete(next.modules, moduleOf(key, object))
			}
		}
	}
	f.approved.Store(&next)
}

// moduleOf returns the name of the module that a ModuleTemplate or ModuleReleaseMeta defines.
func moduleOf(key Key, object *unstructured.Unstructured) string {
	module, _, _ := unstructured.NestedString(object.Object, "spec", "moduleName")
	return cmp.Or(module, key.Name)
}

// Approved returns when an operator approved the removal of a module together with the current commit, or zero. An
// empty module means all modules of the deleted Kyma with this UID. An approval ends when another commit becomes
// current.
func (f *Follower) Approved(kyma types.UID, module string) time.Time {
	approved, current := f.approved.Load(), f.current.Load()
	if approved == nil || current == nil || current.Commit != approved.commit {
		return time.Time{}
	}
	if module == "" && approved.kymas[kyma] || module != "" && approved.modules[module] {
		return approved.at
	}
	return time.Time{}
}
