package v1beta1

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Annotations on v1beta2 objects that hold what only one of both versions has a field for.
//
//	v1beta1 field              | in v1beta2
//	Kyma spec.sync             | kept in AnnotationSync; with enabled: true, noModuleCopy and moduleCatalog: false become the
//	                           | annotations that v1beta2 has for them, and any namespace but kyma-system is refused
//	Kyma spec.sync.strategy    | kept, without effect: nobody holds a kubeconfig of a runtime
//	ModuleTemplate spec.target | kept in v1beta2.AnnotationTarget
//	v1beta2 alone              | kept in AnnotationRest when an object is read as v1beta1
const (
	AnnotationSync = v1beta2.Group + "/v1beta1-sync"
	AnnotationRest = v1beta2.Group + "/v1beta2-fields"
)

// KymaToHub converts to v1beta2. An error names the field that means nothing here, and what to write instead.
func KymaToHub(_ context.Context, from *Kyma, to *v1beta2.Kyma) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Status = from.ObjectMeta, from.Status
	to.Spec = v1beta2.KymaSpec{Channel: from.Spec.Channel, SkipMaintenanceWindows: from.Spec.SkipMaintenanceWindows, Modules: from.Spec.Modules}
	sync := from.Spec.Sync
	if sync == nil {
		return nil
	}
	if sync.Enabled && sync.Namespace != "" && sync.Namespace != v1beta2.RuntimeNamespace {
		return fmt.Errorf("spec.sync.namespace: %q: the runtime's Kyma is always in %s: remove the field", sync.Namespace, v1beta2.RuntimeNamespace)
	}
	if err := note(&to.ObjectMeta, AnnotationSync, sync); err != nil {
		return err
	}
	if sync.Enabled && sync.NoModuleCopy {
		to.Annotations[v1beta2.AnnotationNoModuleCopy] = v1beta2.True
	}
	if sync.Enabled && !sync.ModuleCatalog {
		to.Annotations[v1beta2.AnnotationSyncCatalog] = v1beta2.False
	}
	return nil
}

// KymaFromHub converts from v1beta2.
func KymaFromHub(_ context.Context, from *v1beta2.Kyma, to *Kyma) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Status = from.ObjectMeta, from.Status
	to.Spec = KymaSpec{Channel: from.Spec.Channel, SkipMaintenanceWindows: from.Spec.SkipMaintenanceWindows, Modules: from.Spec.Modules}
	var sync Sync
	found, err := take(&to.ObjectMeta, AnnotationSync, &sync)
	if err != nil || !found {
		return err
	}
	if sync.Enabled {
		// What v1beta2 says now is what counts.
		sync.NoModuleCopy = to.Annotations[v1beta2.AnnotationNoModuleCopy] == v1beta2.True
		sync.ModuleCatalog = to.Annotations[v1beta2.AnnotationSyncCatalog] != v1beta2.False
		drop(&to.ObjectMeta, v1beta2.AnnotationNoModuleCopy, v1beta2.AnnotationSyncCatalog)
	}
	to.Spec.Sync = &sync
	return nil
}

// templateRest is what a v1beta2 ModuleTemplate has above a v1beta1 one.
type templateRest struct {
	Version             string                    `json:"version,omitempty"`
	ModuleName          string                    `json:"moduleName,omitempty"`
	Resources           []v1beta2.ResourceLink    `json:"resources,omitempty"`
	Info                *v1beta2.ModuleInfo       `json:"info,omitempty"`
	AssociatedResources []metav1.GroupVersionKind `json:"associatedResources,omitempty"`
	Manager             *v1beta2.Manager          `json:"manager,omitempty"`
}

// ModuleTemplateToHub converts to v1beta2.
func ModuleTemplateToHub(_ context.Context, from *ModuleTemplate, to *v1beta2.ModuleTemplate) error {
	from = from.DeepCopy()
	to.ObjectMeta = from.ObjectMeta
	var rest templateRest
	if _, err := take(&to.ObjectMeta, AnnotationRest, &rest); err != nil {
		return err
	}
	to.Spec = v1beta2.ModuleTemplateSpec{
		Channel: from.Spec.Channel, Mandatory: from.Spec.Mandatory, RequiresDowntime: from.Spec.RequiresDowntime,
		Data: from.Spec.Data, Descriptor: from.Spec.Descriptor, CustomStateCheck: from.Spec.CustomStateCheck,
		Version: rest.Version, ModuleName: rest.ModuleName, Resources: rest.Resources, Info: rest.Info,
		AssociatedResources: rest.AssociatedResources, Manager: rest.Manager,
	}
	annotate(&to.ObjectMeta, v1beta2.AnnotationTarget, string(from.Spec.Target))
	return nil
}

// ModuleTemplateFromHub converts from v1beta2.
func ModuleTemplateFromHub(_ context.Context, from *v1beta2.ModuleTemplate, to *ModuleTemplate) error {
	from = from.DeepCopy()
	to.ObjectMeta = from.ObjectMeta
	s := from.Spec
	to.Spec = ModuleTemplateSpec{
		Channel: s.Channel, Mandatory: s.Mandatory, RequiresDowntime: s.RequiresDowntime,
		Data: s.Data, Descriptor: s.Descriptor, CustomStateCheck: s.CustomStateCheck, Target: Target(to.Annotations[v1beta2.AnnotationTarget]),
	}
	drop(&to.ObjectMeta, v1beta2.AnnotationTarget)
	if to.Spec.Target == "" {
		to.Spec.Target = TargetRemote
	}
	rest := templateRest{s.Version, s.ModuleName, s.Resources, s.Info, s.AssociatedResources, s.Manager}
	if rest.Version == "" && rest.ModuleName == "" && rest.Resources == nil && rest.Info == nil && rest.AssociatedResources == nil && rest.Manager == nil {
		return nil
	}
	return note(&to.ObjectMeta, AnnotationRest, rest)
}

// ManifestToHub converts to v1beta2; v1beta1 has no fields of its own.
func ManifestToHub(_ context.Context, from *Manifest, to *v1beta2.Manifest) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, from.Spec, from.Status
	return nil
}

// ManifestFromHub converts from v1beta2.
func ManifestFromHub(_ context.Context, from *v1beta2.Manifest, to *Manifest) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, from.Spec, from.Status
	return nil
}

// WatcherToHub converts to v1beta2; v1beta1 has no fields of its own.
func WatcherToHub(_ context.Context, from *Watcher, to *v1beta2.Watcher) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, from.Spec, from.Status
	return nil
}

// WatcherFromHub converts from v1beta2.
func WatcherFromHub(_ context.Context, from *v1beta2.Watcher, to *Watcher) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, from.Spec, from.Status
	return nil
}

// note keeps a value in an annotation, as JSON.
func note(meta *metav1.ObjectMeta, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("annotation %s: %w", name, err)
	}
	annotate(meta, name, string(text))
	return nil
}

func annotate(meta *metav1.ObjectMeta, name, value string) {
	meta.Annotations = maps.Clone(meta.Annotations)
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[name] = value
}

// take returns a value back that note kept, and removes the annotation.
func take(meta *metav1.ObjectMeta, name string, into any) (bool, error) {
	text, ok := meta.Annotations[name]
	if !ok {
		return false, nil
	}
	drop(meta, name)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return false, fmt.Errorf("metadata.annotations[%s]: %w: remove the annotation", name, err)
	}
	return true, nil
}

func drop(meta *metav1.ObjectMeta, names ...string) {
	for _, name := range names {
		delete(meta.Annotations, name)
	}
	if len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
}
