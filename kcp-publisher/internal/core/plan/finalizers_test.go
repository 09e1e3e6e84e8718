package plan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestForeignFinalizerIsFoundOnDeletedObjects(t *testing.T) {
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
		"ModuleReleaseMeta": {
			&v1beta2.ModuleReleaseMeta{ObjectMeta: deleted}, v1beta2.LifecycleManagerFinalizerMandatory, "watchdog",
		},
		"ModuleReleaseMeta that is not deleted":    {&v1beta2.ModuleReleaseMeta{ObjectMeta: kept}, "", ""},
		"ModuleReleaseMeta with another finalizer": {&v1beta2.ModuleReleaseMeta{ObjectMeta: others}, "", ""},
		"ModuleTemplate": {
			&v1beta2.ModuleTemplate{ObjectMeta: labeled}, v1beta2.LifecycleManagerFinalizerMandatory, "watchdog",
		},
		"Watcher": {
			&v1beta2.Watcher{ObjectMeta: watcher}, v1beta2.LifecycleManagerFinalizerWatcher, "",
		},
		"Watcher with another finalizer": {&v1beta2.Watcher{ObjectMeta: deleted}, "", ""},
		"Kyma":                           {&v1beta2.Kyma{ObjectMeta: deleted}, "", ""},
	} {
		if finalizer, module := ForeignFinalizer(c.object); finalizer != c.finalizer || module != c.module {
			t.Errorf("%s: got finalizer %q and module %q, want %q and %q", name, finalizer, module, c.finalizer,
				c.module)
		}
	}
}
