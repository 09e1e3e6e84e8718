package follow

import (
	"context"
	"fmt"
	"maps"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func (f *Follower) watch(ctx context.Context, objects cache.Cache, kinds []client.Object) error {
	for _, kind := range kinds {
		informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(before, after any) {
				if isEdit(before.(client.Object), after.(client.Object)) {
					f.edited.Store(true)
				}
			},
			DeleteFunc: func(deleted any) {
				if last, ok := deleted.(toolscache.DeletedFinalStateUnknown); ok {
					deleted = last.Obj
				}
				if object, ok := deleted.(client.Object); ok &&
					object.GetAnnotations()[v1beta2.AnnotationGitCommit] != "" {
					f.edited.Store(true)
				}
			},
		})
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

// isEdit reports whether another client changed more than the status of a commit's object.
func isEdit(before, after client.Object) bool {
	if before.GetAnnotations()[v1beta2.AnnotationGitCommit] == "" {
		return false
	}
	was, is := before.GetAnnotations(), after.GetAnnotations()
	if digest := is[v1beta2.AnnotationGitDigest]; digest != "" && digest != was[v1beta2.AnnotationGitDigest] {
		return false // the follower made this change
	}
	return before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(was, is)
}
