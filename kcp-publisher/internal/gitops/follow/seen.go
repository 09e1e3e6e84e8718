package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// The manager's cache watches each kind separately, so it can be up to date for one kind and outdated for another. A
// commit is recorded as applied only after the cache contains all its objects.

const (
	visibleWithin = 10 * time.Second
	visiblePoll   = 100 * time.Millisecond
)

func newLists() map[schema.GroupKind]client.ObjectList {
	lists := map[schema.GroupKind]client.ObjectList{
		v1alpha1.GroupVersion.WithKind("RolloutPolicy").GroupKind():   &v1alpha1.RolloutPolicyList{},
		v1alpha1.GroupVersion.WithKind("PromotionPolicy").GroupKind(): &v1alpha1.PromotionPolicyList{},
	}
	for kind, list := range map[string]client.ObjectList{
		"Watcher": &v1beta2.WatcherList{}, "ModuleTemplate": &v1beta2.ModuleTemplateList{},
		"ModuleReleaseMeta": &v1beta2.ModuleReleaseMetaList{}, kindKyma: &v1beta2.KymaList{},
	} {
		lists[v1beta2.GroupVersion.WithKind(kind).GroupKind()] = list
	}
	return lists
}

// untilSeen waits until the cache contains the whole commit. It returns immediately if publishing is not stopped.
func (f *Follower) untilSeen(ctx context.Context, s Survey) error {
	if f.release == nil {
		return nil
	}
	var missing []Key
	err := wait.PollUntilContextTimeout(ctx, visiblePoll, visibleWithin, true, func(ctx context.Context) (bool, error) {
		cached, err := f.cached(ctx, s)
		if err != nil {
			return false, err
		}
		missing = outdatedInCache(s, cached)
		return len(missing) == 0, nil
	})
	if wait.Interrupted(err) && len(missing) > 0 {
		err = errors.New("the publisher's cache is outdated for " + joinKeys(missing))
	}
	if err != nil {
		return &failure{v1beta2.ReasonCommitApplyFailed, fmt.Errorf("wait for the cache after the apply: %w", err)}
	}
	return nil
}

func (f *Follower) cached(ctx context.Context, s Survey) (map[Key]metav1.Object, error) {
	wanted := map[schema.GroupKind]bool{}
	for _, keys := range [][]Key{s.Plan.Inventory, s.previous.Keys} {
		for _, key := range keys {
			wanted[key.Kind] = true
		}
	}
	cached := map[Key]metav1.Object{}
	for kind, list := range newLists() {
		if !wanted[kind] {
			continue
		}
		if _, err := f.Client.RESTMapper().RESTMapping(kind); meta.IsNoMatchError(err) {
			continue // controllers do not watch a kind that is not installed
		}
		if err := f.Client.List(ctx, list, client.InNamespace(f.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil {
				cached[Key{kind, object.GetName()}] = object
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
	}
	return cached, nil
}

// outdatedInCache returns the commit's objects that are outdated or missing in the cache, and deleted objects that
// are still in the cache.
func outdatedInCache(s Survey, cached map[Key]metav1.Object) []Key {
	settled, has := map[Key]bool{}, map[Key]bool{}
	for _, key := range s.Plan.differingKeys() {
		settled[key] = true
	}
	for _, key := range s.Plan.Protected {
		settled[key] = true
	}
	var missing []Key
	for _, key := range s.Plan.Inventory {
		has[key] = true
		if live := s.Live[key]; settled[key] || live == nil {
			continue
		} else if object := cached[key]; object == nil || digestAnnotation(object) != digestAnnotation(live) {
			missing = append(missing, key)
		}
	}
	for _, key := range s.previous.Keys {
		object := cached[key]
		if has[key] || settled[key] || object == nil || object.GetDeletionTimestamp() != nil {
			continue
		}
		if live := s.Live[key]; live == nil || live.GetDeletionTimestamp() != nil {
			missing = append(missing, key)
		}
	}
	return missing
}

func digestAnnotation(object metav1.Object) string {
	return object.GetAnnotations()[v1beta2.AnnotationGitDigest]
}
