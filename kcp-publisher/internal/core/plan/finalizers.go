package plan

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// LifecycleManagerFinalizer returns the finalizer with which lifecycle-manager keeps an object of the control plane,
// empty where the object has none of it, and the module whose Manifests it would delete before the object goes, empty
// where it has nothing to delete that matters here.
//
// Source: lifecycle-manager, internal/service/mandatorymodule/deletion, internal/controller/watcher (its VirtualService is owned by the Watcher, and goes
// with it); 1.0.0, internal/controller/mandatorymodule, for ModuleTemplates.
func LifecycleManagerFinalizer(object metav1.Object) (finalizer, module string) {
	switch o := object.(type) {
	case *v1beta2.ModuleReleaseMeta:
		finalizer, module = v1beta2.LifecycleManagerFinalizerMandatory, o.Name
	case *v1beta2.ModuleTemplate:
		finalizer, module = v1beta2.LifecycleManagerFinalizerMandatory, cmp.Or(o.Spec.ModuleName, o.Labels[v1beta2.LabelModuleName])
	case *v1beta2.Watcher:
		finalizer = v1beta2.LifecycleManagerFinalizerWatcher
	}
	if finalizer == "" || !slices.Contains(object.GetFinalizers(), finalizer) {
		return "", ""
	}
	return finalizer, module
}

// ForeignFinalizer is LifecycleManagerFinalizer for an object that is deleted, and returns nothing for others.
func ForeignFinalizer(object metav1.Object) (finalizer, module string) {
	if object.GetDeletionTimestamp().IsZero() {
		return "", ""
	}
	return LifecycleManagerFinalizer(object)
}
