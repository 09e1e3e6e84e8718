package follow

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

const concurrency = 8

// applyAll applies objects, one kind after the other. The error lists the file and line of each rejected object.
func (f *Follower) applyAll(
	ctx context.Context, objects []source.Written, live map[Key]*unstructured.Unstructured,
	options ...client.ApplyOption,
) error {
	options = append(options, client.FieldOwner(fieldManager), client.ForceOwnership)
	problems := make([]error, len(objects))
	for start := 0; start < len(objects); {
		kind := objects[start].Object.GetKind()
		group := errgroup.Group{}
		group.SetLimit(concurrency)
		for ; start < len(objects) && objects[start].Object.GetKind() == kind; start++ {
			w := objects[start]
			problem := &problems[start]
			group.Go(func() error {
				object := w.Object.DeepCopy() // Apply overwrites the object with the response
				err := f.mayWrite()
				if err == nil {
					err = f.reclaim(ctx, live[KeyOf(object)])
				}
				if err == nil {
					err = f.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
				}
				if err != nil {
					*problem = fmt.Errorf("%s: %w", w.Place, err)
				}
				return nil
			})
		}
		_ = group.Wait() // problems contains the errors
	}
	var errs []error
	for _, problem := range problems {
		if problem != nil {
			errs = append(errs, problem)
		}
	}
	if more := len(errs) - maxNamed; more > 0 {
		errs = append(errs[:maxNamed], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// mayWrite returns an error if this process has lost its lease.
func (f *Follower) mayWrite() error {
	if f.MayWrite == nil {
		return nil
	}
	return f.MayWrite()
}

func (f *Follower) pruneObjects(ctx context.Context, keys []Key, live map[Key]*unstructured.Unstructured) error {
	var problems []error
	for _, key := range keys {
		if err := f.mayWrite(); err != nil {
			return err
		}
		object := live[key]
		uid := object.GetUID()
		err := f.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			problems = append(problems, fmt.Errorf("prune %s: %w", key, err))
		}
	}
	return errors.Join(problems...)
}

// disownObjects removes the commit's annotations from objects. The objects stay in the control plane, but are not
// managed by the repository anymore.
func (f *Follower) disownObjects(ctx context.Context, keys []Key, live map[Key]*unstructured.Unstructured) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null,%q:null}}}`,
		v1beta2.AnnotationGitCommit, v1beta2.AnnotationGitDigest))
	var problems []error
	for _, key := range keys {
		if err := f.mayWrite(); err != nil {
			return err
		}
		if err := f.Client.Patch(ctx, live[key].DeepCopy(), patch,
			client.FieldOwner(fieldManager)); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("remove the commit's annotations from %s: %w", key, err))
		}
	}
	return errors.Join(problems...)
}
