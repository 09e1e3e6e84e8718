package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// manifestsPoll is the interval at which the publisher checks whether a deleted module's Manifests still exist.
const manifestsPoll = 10 * time.Second

// rightsPoll is the interval between retries if the publisher lacks the permission to remove a finalizer.
const rightsPoll = 10 * time.Minute

// foreignFinalizers removes lifecycle-manager's finalizers from deleted objects of one kind. Otherwise, these objects
// would never disappear after lifecycle-manager is uninstalled.
type foreignFinalizers struct {
	client   client.Client
	uncached client.Reader // uncached, because Manifests are read rarely
	events   events.EventRecorder
	kind     client.Object
}

func setUpFinalizers(mgr ctrl.Manager, events events.EventRecorder) error {
	foreign := predicate.NewPredicateFuncs(func(object client.Object) bool {
		finalizer, _ := plan.ForeignFinalizer(object)
		return finalizer != ""
	})
	for name, kind := range map[string]client.Object{
		"modulereleasemeta-finalizers": &v1beta2.ModuleReleaseMeta{},
		"moduletemplate-finalizers":    &v1beta2.ModuleTemplate{}, "watcher-finalizers": &v1beta2.Watcher{},
	} {
		f := &foreignFinalizers{client: mgr.GetClient(), uncached: mgr.GetAPIReader(), events: events, kind: kind}
		if err := ctrl.NewControllerManagedBy(mgr).Named(name).For(kind, builder.WithPredicates(foreign)).
			Complete(f); err != nil {
			return fmt.Errorf("set up controller %s: %w", name, err)
		}
	}
	return nil
}

// Reconcile removes lifecycle-manager's finalizer from one object. It waits while the module's Manifests exist, because
// an active lifecycle-manager must delete them first.
func (f *foreignFinalizers) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := f.kind.DeepCopyObject().(client.Object)
	if err := f.client.Get(ctx, req.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	finalizer, module := plan.ForeignFinalizer(object)
	if finalizer == "" {
		return ctrl.Result{}, nil
	}
	manifest, err := f.findManifest(ctx, object.GetNamespace(), module)
	if err == nil && manifest != "" {
		f.emitEvent(object,
			fmt.Sprintf(
				"finalizer %s stays while lifecycle-manager has Manifests of module %s, such as %s; all runtimes of "+
					"this publisher have removed the module", finalizer, module, manifest))
		return ctrl.Result{RequeueAfter: manifestsPoll}, nil
	}
	if err == nil {
		err = f.removeFinalizer(ctx, object, finalizer)
	}
	if apierrors.IsForbidden(err) {
		f.emitEvent(object,
			fmt.Sprintf(
				"lifecycle-manager's finalizer %s stays: remove it, or give the publisher the permissions in "+
					"rbac/finalizers.yaml (chart value rbac.foreignFinalizers)", finalizer))
		return ctrl.Result{RequeueAfter: rightsPoll}, nil
	}
	return ctrl.Result{}, err
}

func (f *foreignFinalizers) emitEvent(object client.Object, note string) {
	f.events.Eventf(object, nil, corev1.EventTypeWarning, v1beta2.ReasonFinalizerKept, "Delete", "%s", eventNote(note))
}

func (f *foreignFinalizers) removeFinalizer(ctx context.Context, object client.Object, finalizer string) error {
	before := object.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(object, finalizer)
	name := client.ObjectKeyFromObject(object)
	if err := f.client.Patch(ctx, object,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer %s from %s: %w", finalizer, name, err)
	}
	ctrl.LoggerFrom(ctx).Info("removed lifecycle-manager's finalizer", "object", name.String(), "finalizer",
		finalizer)
	return nil
}

// findManifest returns the name of one of the module's Manifests in the control plane, or "" if none exists.
func (f *foreignFinalizers) findManifest(ctx context.Context, namespace, module string) (string, error) {
	if module == "" {
		return "", nil
	}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(v1beta2.GroupVersion.WithKind("ManifestList"))
	err := f.uncached.List(ctx, all, client.InNamespace(namespace),
		client.MatchingLabels{v1beta2.LabelModuleName: module}, client.Limit(1))
	if meta.IsNoMatchError(err) || err == nil && len(all.Items) == 0 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("list lifecycle-manager's Manifests of module %s: %w", module, err)
	}
	return all.Items[0].Name, nil
}
