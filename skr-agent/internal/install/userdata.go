package install

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// keepsData returns the reason why an upgrade must not delete an object, because data of users or other modules would
// be lost. It returns "" if the object can be deleted.
func (d *deleter) keepsData(ctx context.Context, m *v1beta2.Manifest, r v1beta2.Resource) (string, error) {
	gk := object.KeyOf(r).GroupKind()
	isClaim := gk == object.ClaimKind || gk == schema.GroupKind{Kind: "PersistentVolume"}
	if !isClaim && !guard.IsCRD(gk) && !guard.IsNamespace(gk) {
		return "", nil
	}
	live, err := d.planner.accounts.Of(m).Metadata(ctx, r)
	if live == nil || err != nil || !live.DeletionTimestamp.IsZero() {
		return "", err
	}
	if !d.planner.mayDelete(m)(live) || live.Annotations[v1beta2.AnnotationDeleteWithData] == v1beta2.True {
		return "", nil
	}
	const text = "%s is no longer part of the module and is kept while it %s: delete it, or set the annotation %s: " +
		"%q on it"
	switch {
	case isClaim:
		return fmt.Sprintf(text, object.KeyOf(r), "may contain data", v1beta2.AnnotationDeleteWithData, v1beta2.True), nil
	case guard.IsNamespace(gk):
		contents, err := d.planner.accounts.Own().Contents(ctx, r.Name)
		if err != nil || len(contents) == 0 {
			return "", err
		}
		return fmt.Sprintf(text, object.KeyOf(r), "contains "+excerpt.FirstFew(contents), v1beta2.AnnotationDeleteWithData,
			v1beta2.True), nil
	}
	inUse, err := d.planner.accounts.Of(m).Instances(ctx, r,
		func(guard.Key, *metav1.PartialObjectMetadata) bool { return false })
	if err != nil || len(inUse) == 0 {
		return "", err
	}
	return fmt.Sprintf("%s is no longer part of the module and is kept while it is in use by %s", object.KeyOf(r),
		excerpt.FirstFew(inUse)), nil
}

// keepNamespaces returns the resources to delete with a module. It does not return namespaces that contain objects of
// users. It removes the agent's labels and annotations from these namespaces.
func (d *deleter) keepNamespaces(
	ctx context.Context, m *v1beta2.Manifest, stage []v1beta2.Resource,
) ([]v1beta2.Resource, error) {
	var empty []v1beta2.Resource
	for _, r := range stage {
		if !guard.IsNamespace(object.KeyOf(r).GroupKind()) || guard.IsSharedNamespace(object.KeyOf(r), d.planner.namespace) {
			empty = append(empty, r)
			continue
		}
		live, err := d.planner.accounts.Of(m).Metadata(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if live == nil || !live.DeletionTimestamp.IsZero() ||
			live.Annotations[v1beta2.AnnotationDeleteWithData] == v1beta2.True ||
			!d.planner.owner(m).IsAnnotatedOwner(live) {
			empty = append(empty, r)
			continue
		}
		contents, err := d.planner.accounts.Own().Contents(ctx, r.Name)
		if err != nil {
			return nil, err
		}
		if len(contents) == 0 {
			empty = append(empty, r)
			continue
		}
		if err := d.planner.accounts.Of(m).Unmark(ctx, live); err != nil {
			return nil, fmt.Errorf("remove the agent's labels and annotations from %s: %w", object.KeyOf(r), err)
		}
		d.events.Eventf(m, nil, "Warning", v1beta2.ReasonDataKept, "Remove", "kept %s because it contains %s",
			object.KeyOf(r), excerpt.FirstFew(contents))
	}
	return empty, nil
}

// userObjects returns the names of users' custom resources that would be deleted with the module's CRDs.
func (d *deleter) userObjects(ctx context.Context, m *v1beta2.Manifest, mine []v1beta2.Resource) ([]string, error) {
	by, synced := d.planner.owner(m), object.KeysOf(m.Status.Synced)
	deletes := d.planner.mayDelete(m)
	defaultCR, _ := d.planner.defaultCR(m)
	ours := func(k guard.Key, o *metav1.PartialObjectMetadata) bool {
		return synced.Has(k) && deletes(o) || k == object.KeyOf(defaultCR) && by.OwnsDefaultCR(o)
	}
	var found []string
	for _, r := range mine {
		if !guard.IsCRD(object.GVKOf(r).GroupKind()) {
			continue
		}
		names, err := d.planner.accounts.Of(m).Instances(ctx, r, ours)
		if err != nil {
			return nil, err
		}
		found = append(found, names...)
	}
	return found, nil
}

// dataInterval is the interval between two checks of objects that an upgrade keeps because they contain data.
const dataInterval = time.Minute
