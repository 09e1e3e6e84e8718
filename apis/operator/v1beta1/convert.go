package v1beta1

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Annotations that preserve the fields that exist in only one of v1beta1 and v1beta2, so a conversion loses no field.
//
//	field                             | conversion
//	Kyma spec.sync                    | stored in AnnotationSync in v1beta2. If enabled is true, the fields
//	                                  | noModuleCopy and moduleCatalog also set the v1beta2 annotations with the same
//	                                  | meaning, and a namespace other than kyma-system is an error.
//	Kyma spec.sync.strategy           | stored in AnnotationSync. Values other than secret and local-secret are an
//	                                  | error, because kyma-pull does not use kubeconfigs of runtimes.
//	ModuleTemplate spec.target        | stored in v1beta2.AnnotationTarget, unless it is the default
//	fields that exist only in v1beta2 | stored in AnnotationRest in v1beta1
//
// Only this package uses these annotations. The conversion from v1beta2 ignores invalid content in them. If the
// conversion of one object failed, clients could not list any objects of this kind as v1beta1.
const (
	AnnotationSync = v1beta2.Group + "/v1beta1-sync"
	AnnotationRest = v1beta2.Group + "/v1beta2-fields"
)

// KymaToHub converts a Kyma to v1beta2. An error contains the unsupported field and the fix.
func KymaToHub(_ context.Context, from *Kyma, to *v1beta2.Kyma) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Status = from.ObjectMeta, from.Status
	to.Spec = v1beta2.KymaSpec{
		Channel: from.Spec.Channel, SkipMaintenanceWindows: from.Spec.SkipMaintenanceWindows,
		Modules: from.Spec.Modules,
	}
	dropAnnotations(&to.ObjectMeta, AnnotationSync) // spec.sync sets the annotation again below
	sync := from.Spec.Sync
	if sync == nil {
		return nil
	}
	if sync.Enabled && sync.Namespace != "" && sync.Namespace != v1beta2.RuntimeNamespace {
		return fmt.Errorf(
			"spec.sync.namespace: %q is not supported: the runtime's Kyma is always in %s; remove the field",
			sync.Namespace, v1beta2.RuntimeNamespace)
	}
	if sync.Enabled && !supported(sync.Strategy) {
		return fmt.Errorf(
			"spec.sync.strategy: %q is not supported: the publisher does not use kubeconfigs of runtimes; remove "+
				"the field",
			sync.Strategy)
	}
	stored := storedSync{Sync: *sync}
	if sync.Enabled {
		stored.switchTo(&to.ObjectMeta, v1beta2.AnnotationNoModuleCopy, v1beta2.True, sync.NoModuleCopy)
		stored.switchTo(&to.ObjectMeta, v1beta2.AnnotationSyncCatalog, v1beta2.False, !sync.ModuleCatalog)
	}
	return storeAnnotation(&to.ObjectMeta, AnnotationSync, stored)
}

// supported reports whether kyma-pull accepts a value of spec.sync.strategy. The values secret and local-secret make
// lifecycle-manager read a kubeconfig from a Secret. kyma-pull accepts them but does not read a kubeconfig.
func supported(strategy string) bool {
	return strategy == "" || strategy == "secret" || strategy == "local-secret"
}

// storedSync is the content of AnnotationSync.
type storedSync struct {
	Sync `json:",inline"`
	// Annotations contains the annotations that spec.sync replaced when the Kyma was converted to v1beta2. The
	// conversion to v1beta1 restores them.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// switchTo sets the annotation to the value if on is true. Otherwise, it removes the annotation if it has the value. It
// saves the previous annotation in k.Annotations.
func (k *storedSync) switchTo(meta *metav1.ObjectMeta, name, value string, on bool) {
	if own, is := meta.Annotations[name]; is && (on || own == value) {
		if k.Annotations == nil {
			k.Annotations = map[string]string{}
		}
		k.Annotations[name] = own
		dropAnnotations(meta, name)
	}
	if on {
		annotate(meta, name, value)
	}
}

// removeIfEqual reports whether an annotation has the value. If so, it removes the annotation, because the caller
// sets the corresponding v1beta1 field instead.
func removeIfEqual(meta *metav1.ObjectMeta, name, value string) bool {
	if meta.Annotations[name] != value {
		return false
	}
	dropAnnotations(meta, name)
	return true
}

// KymaFromHub converts a Kyma to v1beta1.
func KymaFromHub(_ context.Context, from *v1beta2.Kyma, to *Kyma) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Status = from.ObjectMeta, from.Status
	to.Spec = KymaSpec{
		Channel: from.Spec.Channel, SkipMaintenanceWindows: from.Spec.SkipMaintenanceWindows,
		Modules: from.Spec.Modules,
	}
	var stored storedSync
	if !takeAnnotation(&to.ObjectMeta, AnnotationSync, &stored) {
		return nil
	}
	sync := stored.Sync
	if sync.Enabled {
		if sync.Namespace != v1beta2.RuntimeNamespace {
			sync.Namespace = "" // KymaToHub would return an error for another namespace
		}
		if !supported(sync.Strategy) {
			sync.Strategy = "" // KymaToHub would return an error for this strategy
		}
		// If the stored fields differ from the v1beta2 annotations, the annotations take precedence.
		sync.NoModuleCopy = removeIfEqual(&to.ObjectMeta, v1beta2.AnnotationNoModuleCopy, v1beta2.True)
		sync.ModuleCatalog = !removeIfEqual(&to.ObjectMeta, v1beta2.AnnotationSyncCatalog, v1beta2.False)
		for _, name := range []string{v1beta2.AnnotationNoModuleCopy, v1beta2.AnnotationSyncCatalog} {
			own, was := stored.Annotations[name]
			if _, is := to.Annotations[name]; was && !is {
				annotate(&to.ObjectMeta, name, own)
			}
		}
	}
	to.Spec.Sync = &sync
	return nil
}

// templateRest contains the v1beta2 fields of a ModuleTemplate that do not exist in v1beta1.
type templateRest struct {
	Version             string                    `json:"version,omitempty"`
	ModuleName          string                    `json:"moduleName,omitempty"`
	Resources           []v1beta2.ResourceLink    `json:"resources,omitempty"`
	Info                *v1beta2.ModuleInfo       `json:"info,omitempty"`
	AssociatedResources []metav1.GroupVersionKind `json:"associatedResources,omitempty"`
	Manager             *v1beta2.Manager          `json:"manager,omitempty"`
	// Target is the value of v1beta2.AnnotationTarget if spec.target cannot contain this value.
	Target string `json:"target,omitempty"`
}

// ModuleTemplateToHub converts a ModuleTemplate to v1beta2. It returns an error if the annotation AnnotationRest is
// invalid, because the result would lack the fields in this annotation.
func ModuleTemplateToHub(_ context.Context, from *ModuleTemplate, to *v1beta2.ModuleTemplate) error {
	from = from.DeepCopy()
	to.ObjectMeta = from.ObjectMeta
	var rest templateRest
	if text, is := to.Annotations[AnnotationRest]; is && !takeAnnotation(&to.ObjectMeta, AnnotationRest, &rest) {
		return fmt.Errorf(
			"metadata.annotations[%s]: %.64q is not valid JSON. The annotation stores the fields that exist only in "+
				"v1beta2: restore it, or write the object as v1beta2",
			AnnotationRest, text)
	}
	to.Spec = v1beta2.ModuleTemplateSpec{
		Channel: from.Spec.Channel, Mandatory: from.Spec.Mandatory, RequiresDowntime: from.Spec.RequiresDowntime,
		Data: from.Spec.Data, Descriptor: from.Spec.Descriptor, CustomStateCheck: from.Spec.CustomStateCheck,
		Version: rest.Version, ModuleName: rest.ModuleName, Resources: rest.Resources, Info: rest.Info,
		AssociatedResources: rest.AssociatedResources, Manager: rest.Manager,
	}
	dropAnnotations(&to.ObjectMeta, v1beta2.AnnotationTarget) // spec.target sets the annotation again below
	switch {
	case from.Spec.Target == TargetControlPlane:
		annotate(&to.ObjectMeta, v1beta2.AnnotationTarget, v1beta2.TargetControlPlane)
	case rest.Target != "" && rest.Target != v1beta2.TargetControlPlane:
		annotate(&to.ObjectMeta, v1beta2.AnnotationTarget, rest.Target)
	}
	return nil
}

// ModuleTemplateFromHub converts a ModuleTemplate to v1beta1.
func ModuleTemplateFromHub(_ context.Context, from *v1beta2.ModuleTemplate, to *ModuleTemplate) error {
	from = from.DeepCopy()
	to.ObjectMeta = from.ObjectMeta
	s := from.Spec
	to.Spec = ModuleTemplateSpec{
		Channel: s.Channel, Mandatory: s.Mandatory, RequiresDowntime: s.RequiresDowntime,
		Data: s.Data, Descriptor: s.Descriptor, CustomStateCheck: s.CustomStateCheck, Target: TargetRemote,
	}
	rest := templateRest{
		s.Version, s.ModuleName, s.Resources, s.Info, s.AssociatedResources, s.Manager,
		to.Annotations[v1beta2.AnnotationTarget],
	}
	dropAnnotations(&to.ObjectMeta, v1beta2.AnnotationTarget, AnnotationRest)
	if rest.Target == v1beta2.TargetControlPlane {
		to.Spec.Target, rest.Target = TargetControlPlane, ""
	}
	if reflect.ValueOf(rest).IsZero() {
		return nil
	}
	return storeAnnotation(&to.ObjectMeta, AnnotationRest, rest)
}

// ManifestToHub converts a Manifest to v1beta2. The two versions have the same fields.
func ManifestToHub(_ context.Context, from *Manifest, to *v1beta2.Manifest) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, from.Spec, from.Status
	return nil
}

// ManifestFromHub converts a Manifest to v1beta1.
func ManifestFromHub(_ context.Context, from *v1beta2.Manifest, to *Manifest) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, from.Spec, from.Status
	return nil
}

// WatcherToHub converts a Watcher to v1beta2. The two versions have the same fields.
func WatcherToHub(_ context.Context, from *Watcher, to *v1beta2.Watcher) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, from.Spec, from.Status
	return nil
}

// WatcherFromHub converts a Watcher to v1beta1.
func WatcherFromHub(_ context.Context, from *v1beta2.Watcher, to *Watcher) error {
	from = from.DeepCopy()
	to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, from.Spec, from.Status
	return nil
}

// storeAnnotation encodes a value as JSON and sets it as an annotation.
func storeAnnotation(meta *metav1.ObjectMeta, name string, value any) error {
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

// takeAnnotation removes an annotation and decodes its value. It reports whether the annotation existed and was valid.
func takeAnnotation(meta *metav1.ObjectMeta, name string, into any) bool {
	text, ok := meta.Annotations[name]
	if !ok {
		return false
	}
	dropAnnotations(meta, name)
	return json.Unmarshal([]byte(text), into) == nil
}

func dropAnnotations(meta *metav1.ObjectMeta, names ...string) {
	for _, name := range names {
		delete(meta.Annotations, name)
	}
	if len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
}
