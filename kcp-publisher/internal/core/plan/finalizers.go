package plan

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// LifecycleManagerFinalizer returns lifecycle-manager's finalizer on an object, or "". If lifecycle-manager must delete
// a module's Manifests before the object, module is the module's name.
//
// Source: lifecycle-manager, internal/service/mandatorymodule/deletion and internal/controller/watcher. A Watcher owns
// its VirtualService, which is deleted together with the Watcher. For ModuleTemplates: lifecycle-manager 1.0.0,
// internal/controller/mandatorymodule.
func LifecycleManagerFinalizer(object metav1.Object) (finalizer, module string) {
	switch o := object.(type) {
	case *v1beta2.ModuleReleaseMeta:
		finalizer, module = v1beta2.LifecycleManagerFinalizerMandatory, o.Name
	case *v1beta2.ModuleTemplate:
		finalizer, module = v1beta2.LifecycleManagerFinalizerMandatory,
			cmp.Or(o.Spec.ModuleName, o.Labels[v1beta2.LabelModuleName])
	case *v1beta2.Watcher:
		finalizer = v1beta2.LifecycleManagerFinalizerWatcher
	}
	if finalizer == "" || !slices.Contains(object.GetFinalizers(), finalizer) {
		return "", ""
	}
	return finalizer, module
}

// ForeignFinalizer returns the result of LifecycleManagerFinalizer if the object is being deleted. Otherwise, it
// returns empty strings.
func ForeignFinalizer(object metav1.Object) (finalizer, module string) {
	if object.GetDeletionTimestamp().IsZero() {
		return "", ""
	}
	return LifecycleManagerFinalizer(object)
}
