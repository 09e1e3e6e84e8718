package takeover

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// finalizers are the finalizers that lifecycle-manager sets on its Manifests.
//
// Source: lifecycle-manager, internal/manifest/finalizer.
var finalizers = []string{
	v1beta2.FinalizerManifest, v1beta2.LifecycleManagerFinalizerResource, v1beta2.LifecycleManagerFinalizerLabels,
}

// removeManifest deletes one of lifecycle-manager's Manifests and keeps its module installed. It first adds the
// skip-reconciliation label and removes the finalizers, so that lifecycle-manager does not uninstall the module. If the
// Manifest does not exist, it does nothing.
func removeManifest(ctx context.Context, api client.Client, manifest *v1beta2.Manifest) error {
	before := manifest.DeepCopy()
	setSkipLabel(manifest)
	for _, f := range finalizers {
		controllerutil.RemoveFinalizer(manifest, f)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := api.Patch(ctx, manifest, patch); err != nil {
		return ignoreNotFound("remove lifecycle-manager's finalizers of", manifest, err)
	}
	uid := manifest.UID
	if err := api.Delete(ctx, manifest, client.Preconditions{UID: &uid}); err != nil {
		return ignoreNotFound("delete", manifest, err)
	}
	if len(manifest.Finalizers) > 0 {
		return fmt.Errorf("Manifest %s/%s is being deleted and waits for finalizers of other programs: %s",
			manifest.Namespace, manifest.Name, strings.Join(manifest.Finalizers, ", "))
	}
	return nil
}

func setSkipLabel(object client.Object) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
	object.SetLabels(labels)
}

func ignoreNotFound(verb string, object client.Object, err error) error {
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("%s %T %s/%s: %w", verb, object, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// Start labels a Kyma and its Manifests, so that lifecycle-manager ignores them and the publisher starts the takeover.
// It returns a message for each labeled object.
func Start(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) (done []string, err error) {
	if s := kyma.Status.Runtime; s != nil && s.Takeover != nil && !v1beta2.TakenOver(kyma) && !isManaged(kyma) {
		before := kyma.DeepCopy()
		s.Takeover = nil // lifecycle-manager has managed the Kyma since the takeover was aborted
		if err := api.Status().
			Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, fmt.Errorf("write status of Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
		}
	}
	if done, err = skipManifests(ctx, api, kyma); err != nil {
		return done, err
	}
	before := kyma.DeepCopy()
	setSkipLabel(kyma)
	kyma.Labels[v1beta2.LabelTakeover] = v1beta2.TakeoverActive
	delete(kyma.Annotations, v1beta2.AnnotationTakeoverPhase)
	if err := patchKyma(ctx, api, before, kyma); err != nil {
		return done, err
	}
	done = append(done, fmt.Sprintf("Kyma %s/%s is labeled %s=%s and %s=%s", kyma.Namespace, kyma.Name,
		v1beta2.LabelTakeover, v1beta2.TakeoverActive, v1beta2.LabelSkipReconciliation, v1beta2.True))
	late, err := skipManifests(ctx, api, kyma) // lifecycle-manager may have created Manifests during this function
	return append(done, late...), err
}

func skipManifests(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) (done []string, err error) {
	return eachManifest(ctx, api, kyma, func(m *v1beta2.Manifest) (string, error) {
		before := m.DeepCopy()
		if setSkipLabel(m); before.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True {
			return "", nil
		}
		return fmt.Sprintf("Manifest %s/%s is labeled %s=%s", m.Namespace, m.Name, v1beta2.LabelSkipReconciliation,
				v1beta2.True),
			api.Patch(ctx, m, client.MergeFrom(before))
	})
}

// SetPhase requests a phase from the runtime.
func SetPhase(ctx context.Context, api client.Client, kyma *v1beta2.Kyma, phase bundle.TakeoverPhase) error {
	before := kyma.DeepCopy()
	if kyma.Annotations == nil {
		kyma.Annotations = map[string]string{}
	}
	kyma.Annotations[v1beta2.AnnotationTakeoverPhase] = string(phase)
	return patchKyma(ctx, api, before, kyma)
}

// Finish removes lifecycle-manager's Manifests and finalizer for a Kyma from the control plane, after the runtime has
// completed the phase clean.
func Finish(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) (done []string, err error) {
	done, err = eachManifest(ctx, api, kyma, func(m *v1beta2.Manifest) (string, error) {
		return fmt.Sprintf("Manifest %s/%s is removed", m.Namespace, m.Name), removeManifest(ctx, api, m)
	})
	if err != nil {
		return done, err
	}
	before := kyma.DeepCopy()
	if controllerutil.RemoveFinalizer(kyma, v1beta2.LifecycleManagerFinalizerPurge) {
		done = append(done,
			fmt.Sprintf("finalizer %s of Kyma %s/%s is removed", v1beta2.LifecycleManagerFinalizerPurge, kyma.Namespace,
				kyma.Name))
	}
	setSkipLabel(kyma)
	kyma.Labels[v1beta2.LabelTakeover] = v1beta2.TakeoverFinished
	delete(kyma.Annotations, v1beta2.AnnotationTakeoverPhase)
	if err := patchKyma(ctx, api, before, kyma); err != nil {
		return done, err
	}
	return append(done, fmt.Sprintf("Kyma %s/%s is taken over", kyma.Namespace, kyma.Name)), nil
}

// Unlabel removes the takeover labels from a Kyma. It must not be called while lifecycle-manager may be running.
func Unlabel(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) (done []string, err error) {
	before := kyma.DeepCopy()
	for _, label := range []string{v1beta2.LabelTakeover, v1beta2.LabelSkipReconciliation} {
		delete(kyma.Labels, label)
	}
	if err := patchKyma(ctx, api, before, kyma); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("labels %s and %s of Kyma %s/%s are removed", v1beta2.LabelTakeover,
		v1beta2.LabelSkipReconciliation, kyma.Namespace, kyma.Name)}, nil
}

// Unfinalize removes lifecycle-manager's finalizers from Watchers, ModuleReleaseMetas and ModuleTemplates, after
// lifecycle-manager was uninstalled.
func Unfinalize(ctx context.Context, api client.Client, namespace string) (done []string, err error) {
	for _, list := range []client.ObjectList{&v1beta2.WatcherList{}, &v1beta2.ModuleReleaseMetaList{},
		&v1beta2.ModuleTemplateList{}} {
		if err := api.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return done,
				fmt.Errorf("list objects with lifecycle-manager's finalizers in namespace %s: %w", namespace, err)
		}
		err = errors.Join(err, meta.EachListItem(list, func(item runtime.Object) error {
			object, is := item.(client.Object)
			if !is {
				return nil
			}
			finalizer, _ := plan.LifecycleManagerFinalizer(object)
			before := object.DeepCopyObject().(client.Object)
			if finalizer == "" || !controllerutil.RemoveFinalizer(object, finalizer) {
				return nil
			}
			kind, err := api.GroupVersionKindFor(object)
			if err != nil {
				return err
			}
			if err := api.Patch(ctx, object,
				client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(
				err) != nil {
				return fmt.Errorf("remove finalizer of %s %s/%s: %w", kind.Kind, namespace, object.GetName(), err)
			}
			done = append(done,
				fmt.Sprintf("finalizer %s of %s %s/%s is removed", finalizer, kind.Kind, namespace, object.GetName()))
			return nil
		}))
	}
	return done, err
}

// eachManifest calls change for each of lifecycle-manager's Manifests for a Kyma, and returns the messages from these
// calls. change returns "" if it did not change the Manifest.
func eachManifest(
	ctx context.Context, api client.Client, kyma *v1beta2.Kyma, change func(*v1beta2.Manifest) (string, error),
) (done []string, err error) {
	own, err := listManifests(ctx, api, kyma)
	if err != nil {
		return nil, err
	}
	for i := range own {
		text, err := change(&own[i])
		if err = client.IgnoreNotFound(err); err != nil {
			return done, fmt.Errorf("Manifest %s/%s: %w", own[i].Namespace, own[i].Name, err)
		}
		if text != "" {
			done = append(done, text)
		}
	}
	return done, nil
}

func listManifests(ctx context.Context, api client.Client, kyma *v1beta2.Kyma) ([]v1beta2.Manifest, error) {
	var all v1beta2.ManifestList
	if err := api.List(ctx, &all, client.InNamespace(kyma.Namespace),
		client.MatchingLabels{v1beta2.LabelKymaName: kyma.Name}); err != nil {
		return nil, fmt.Errorf("list Manifests of Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	return manifestsOf(kyma, all.Items), nil
}

func patchKyma(ctx context.Context, api client.Client, before, kyma *v1beta2.Kyma) error {
	if err := api.Patch(ctx, kyma,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch Kyma %s/%s: %w", kyma.Namespace, kyma.Name, err)
	}
	return nil
}
