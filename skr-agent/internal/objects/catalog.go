package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// catalog writes the modules that the runtime may see and removes those it may not see any more. Only what carries Kyma's own
// label is removed: a runtime's admin may have templates of their own.
func (s *Syncer) catalog(ctx context.Context, catalog bundle.Catalog) error {
	managed := client.MatchingLabels{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma}
	var problems []error
	wanted := map[string]bool{}
	for _, entry := range catalog.ModuleTemplates {
		wanted["ModuleTemplate/"+entry.Name] = true
		template := &v1beta2.ModuleTemplate{}
		problems = append(problems, s.entry(ctx, entry, template, &template.Spec, "ModuleTemplate"))
	}
	for _, entry := range catalog.ModuleReleaseMetas {
		wanted["ModuleReleaseMeta/"+entry.Name] = true
		meta := &v1beta2.ModuleReleaseMeta{}
		problems = append(problems, s.entry(ctx, entry, meta, &meta.Spec, "ModuleReleaseMeta"))
	}
	var templates v1beta2.ModuleTemplateList
	if err := s.Client.List(ctx, &templates, client.InNamespace(namespace), managed); err != nil {
		return fmt.Errorf("list ModuleTemplates: %w", err)
	}
	for i := range templates.Items {
		if object := &templates.Items[i]; !wanted["ModuleTemplate/"+object.Name] {
			problems = append(problems, s.delete(ctx, object, "ModuleTemplate"))
		}
	}
	var metas v1beta2.ModuleReleaseMetaList
	if err := s.Client.List(ctx, &metas, client.InNamespace(namespace), managed); err != nil {
		return fmt.Errorf("list ModuleReleaseMetas: %w", err)
	}
	for i := range metas.Items {
		if object := &metas.Items[i]; !wanted["ModuleReleaseMeta/"+object.Name] {
			problems = append(problems, s.delete(ctx, object, "ModuleReleaseMeta"))
		}
	}
	return errors.Join(problems...)
}

// entry writes one catalog entry; spec points into object.
func (s *Syncer) entry(ctx context.Context, entry bundle.CatalogEntry, object client.Object, spec any, kind string) error {
	labels := with(entry.Labels, map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma})
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: entry.Name}, object)
	if apierrors.IsNotFound(err) {
		object.SetNamespace(namespace)
		object.SetName(entry.Name)
		object.SetLabels(labels)
		object.SetAnnotations(entry.Annotations)
		if err := json.Unmarshal(entry.Spec, spec); err != nil {
			return fmt.Errorf("%s %s: spec: %w", kind, entry.Name, err)
		}
		if err := s.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s/%s: %w", kind, namespace, entry.Name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s %s/%s: %w", kind, namespace, entry.Name, err)
	}
	before := object.DeepCopyObject().(client.Object)
	object.SetLabels(with(object.GetLabels(), labels))
	object.SetAnnotations(with(object.GetAnnotations(), entry.Annotations))
	if !equality.Semantic.DeepEqual(generic(spec), generic(entry.Spec)) {
		if err := replace(spec, entry.Spec); err != nil {
			return fmt.Errorf("%s %s: spec: %w", kind, entry.Name, err)
		}
	}
	return s.patch(ctx, before, object, kind)
}

// replace decodes into an emptied spec, so that fields which are gone from the catalog go from the object.
func replace(spec any, data []byte) error {
	switch s := spec.(type) {
	case *v1beta2.ModuleTemplateSpec:
		*s = v1beta2.ModuleTemplateSpec{}
	case *v1beta2.ModuleReleaseMetaSpec:
		*s = v1beta2.ModuleReleaseMetaSpec{}
	}
	return json.Unmarshal(data, spec)
}
