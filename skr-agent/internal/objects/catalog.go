package objects

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// syncCatalog writes a bundle's ModuleTemplates and ModuleReleaseMetas and deletes entries that are not in the bundle.
// It deletes only objects with the label managed-by: kyma, because a runtime's admin can create templates.
func (s *Syncer) syncCatalog(ctx context.Context, catalog bundle.Catalog) {
	const templateKind, metaKind = "ModuleTemplate", "ModuleReleaseMeta"
	managed := client.MatchingLabels{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma}
	wanted := map[string]bool{}
	want := func(entry bundle.CatalogEntry, object client.Object, spec any, kind string) {
		wanted[kind+"/"+entry.Name] = true
		s.attempts.try(kind, entry.Name, "", func() error { return s.syncEntry(ctx, entry, object, spec, kind) })
	}
	for _, entry := range catalog.ModuleTemplates {
		template := &v1beta2.ModuleTemplate{}
		want(entry, template, &template.Spec, templateKind)
	}
	for _, entry := range catalog.ModuleReleaseMetas {
		meta := &v1beta2.ModuleReleaseMeta{}
		want(entry, meta, &meta.Spec, metaKind)
	}
	drop := func(object client.Object, kind string) {
		if !wanted[kind+"/"+object.GetName()] {
			s.attempts.try(kind, object.GetName(), "", func() error { return s.delete(ctx, object, kind) })
		}
	}
	var templates v1beta2.ModuleTemplateList
	s.attempts.try(templateKind, allObjects, "", func() error {
		return s.list(ctx, &templates, "ModuleTemplates", managed, client.UnsafeDisableDeepCopy)
	})
	for i := range templates.Items {
		drop(&templates.Items[i], templateKind)
	}
	var metas v1beta2.ModuleReleaseMetaList
	s.attempts.try(metaKind, allObjects, "", func() error {
		return s.list(ctx, &metas, "ModuleReleaseMetas", managed, client.UnsafeDisableDeepCopy)
	})
	for i := range metas.Items {
		drop(&metas.Items[i], metaKind)
	}
}

// syncEntry writes one catalog entry. spec points to the spec of object.
func (s *Syncer) syncEntry(
	ctx context.Context, entry bundle.CatalogEntry, object client.Object, spec any, kind string,
) error {
	labels := mergeEntries(entry.Labels, map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma})
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: entry.Name}, object)
	if err == nil && s.settled.isSettled(kind, object) {
		return nil
	}
	if apierrors.IsNotFound(err) {
		object.SetNamespace(namespace)
		object.SetName(entry.Name)
		object.SetLabels(labels)
		object.SetAnnotations(entry.Annotations)
		if err := json.Unmarshal(entry.Spec, spec); err != nil {
			return fmt.Errorf("%s %s: spec: %w", kind, entry.Name, err)
		}
		if err := s.Client.Create(ctx, object, client.FieldOwner(fieldOwner)); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s/%s: %w", kind, namespace, entry.Name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s %s/%s: %w", kind, namespace, entry.Name, err)
	}
	before := object.DeepCopyObject().(client.Object)
	keepMetadata(object, labels, entry.Annotations)
	if !equality.Semantic.DeepEqual(toGeneric(spec), toGeneric(entry.Spec)) {
		if err := replaceSpec(spec, entry.Spec); err != nil {
			return fmt.Errorf("%s %s: spec: %w", kind, entry.Name, err)
		}
	}
	if err := s.patch(ctx, before, object, kind); err != nil {
		return err
	}
	if object.GetResourceVersion() == before.GetResourceVersion() {
		s.settled.markSettled(kind, object)
	}
	return nil
}

// replaceSpec empties a spec and then decodes data into it. This removes the fields that data does not contain.
func replaceSpec(spec any, data []byte) error {
	switch s := spec.(type) {
	case *v1beta2.ModuleTemplateSpec:
		*s = v1beta2.ModuleTemplateSpec{}
	case *v1beta2.ModuleReleaseMetaSpec:
		*s = v1beta2.ModuleReleaseMetaSpec{}
	}
	return json.Unmarshal(data, spec)
}
