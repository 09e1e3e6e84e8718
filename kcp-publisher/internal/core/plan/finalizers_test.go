package plan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestOnlyDeletedObjectsLoseFinalizersOfLifecycleManager(t *testing.T) {
	kept := metav1.ObjectMeta{
		Name: "watchdog", Finalizers: []string{"example.com/own", v1beta2.LifecycleManagerFinalizerMandatory},
	}
	deleted := kept
	deleted.DeletionTimestamp = &metav1.Time{Time: noon}
	others, watcher := deleted, deleted
	others.Finalizers, watcher.Finalizers = []string{"example.com/own"},
		[]string{v1beta2.LifecycleManagerFinalizerWatcher}
	labeled := deleted
	labeled.Name, labeled.Labels = "watchdog-1.0.0", map[string]string{v1beta2.LabelModuleName: "watchdog"}
	for name, c := range map[string]struct {
		object            metav1.Object
		finalizer, module string
	}{
		"a ModuleReleaseMeta": {
			&v1beta2.ModuleReleaseMeta{ObjectMeta: deleted}, v1beta2.LifecycleManagerFinalizerMandatory, "watchdog",
		},
		"one that is not deleted":   {&v1beta2.ModuleReleaseMeta{ObjectMeta: kept}, "", ""},
		"one with another client's": {&v1beta2.ModuleReleaseMeta{ObjectMeta: others}, "", ""},
		"a ModuleTemplate": {
			&v1beta2.ModuleTemplate{ObjectMeta: labeled}, v1beta2.LifecycleManagerFinalizerMandatory, "watchdog",
		},
		"a Watcher": {
			&v1beta2.Watcher{ObjectMeta: watcher}, v1beta2.LifecycleManagerFinalizerWatcher, "",
		},
		"a Watcher with a finalizer that is no one": {&v1beta2.Watcher{ObjectMeta: deleted}, "", ""},
		"a Kyma": {&v1beta2.Kyma{ObjectMeta: deleted}, "", ""},
	} {
		if finalizer, module := ForeignFinalizer(c.object); finalizer != c.finalizer || module != c.module {
			t.Errorf("%s: got %q of module %q", name, finalizer, module)
		}
	}
}
