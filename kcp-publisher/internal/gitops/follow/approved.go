package follow

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// approvedRemovals are the removals that an operator approved together with a commit.
type approvedRemovals struct {
	commit string
	at     time.Time // when the follower first read the commit
	// kymas contains the UIDs of deleted Kymas.
	kymas map[types.UID]bool
	// modules contains the mandatory modules that the commit removes from all runtimes.
	modules map[string]bool
}

// recordApproved replaces the approved removals of any other commit. Only the goroutine of Start calls it.
func (f *Follower) recordApproved(commit string, s Survey) {
	next := approvedRemovals{commit, time.Now(), map[types.UID]bool{}, map[string]bool{}}
	if known := f.approved.Load(); known != nil && known.commit == commit {
		// An earlier poll already pruned some of the objects.
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
		// The approval covers modules without any remaining mandatory definition.
		for key, object := range s.Live {
			if isMandatory(object) && !slices.Contains(s.Plan.Prune, key) {
				delete(next.modules, moduleOf(key, object))
			}
		}
	}
	f.approved.Store(&next)
}

func moduleOf(key Key, object *unstructured.Unstructured) string {
	module, _, _ := unstructured.NestedString(object.Object, "spec", "moduleName")
	return cmp.Or(module, key.Name)
}

// Approved returns the time when an operator approved a removal together with the current commit, or zero. An empty
// module means all modules of the deleted Kyma with this UID.
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
