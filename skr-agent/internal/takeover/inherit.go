package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Inherit adds inherited objects, which lifecycle-manager installed, to a Manifest's inventory. It adds each list of
// inherited objects only once. The installer does not reconcile the Manifest until Inherit is complete.
//
// Inherit can be interrupted and called again. Its last write changes the Manifest's record, so that the installer
// continues.
func (w Writer) Inherit(ctx context.Context, manifest *v1beta2.Manifest, inherited []bundle.ObjectRef) error {
	digest := inheritedDigest(inherited)
	if digest == "" || w.Records.Read(manifest).Inherited == digest {
		return nil
	}
	// The field Restoring in the record stops the installer until Inherit is complete.
	if err := w.updateRecord(ctx, manifest, func(r *record.Record) { r.Restoring = true }); err != nil {
		return err
	}
	before := manifest.DeepCopy()
	manifest.SetInventory(withInherited(manifest.Status.Synced, inherited))
	// The Manifest comes from a cache and can be outdated. With the optimistic lock, the patch cannot overwrite a newer
	// inventory.
	if err := w.Client.Status().
		Patch(ctx, manifest, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add inherited objects to the inventory of Manifest %s/%s: %w", namespace, manifest.Name, err)
	}
	return w.updateRecord(ctx, manifest, func(r *record.Record) { r.Restoring, r.Inherited = false, digest })
}

// updateRecord changes the signed record in a Manifest's annotation.
func (w Writer) updateRecord(ctx context.Context, manifest *v1beta2.Manifest, change func(*record.Record)) error {
	err := w.Records.Update(ctx, w.Client, w.Uncached, manifest, change, client.FieldOwner(w.Owner))
	if err != nil {
		return fmt.Errorf("update the record of Manifest %s/%s: %w", namespace, manifest.Name, err)
	}
	return nil
}

// inheritedDigest returns the digest of a list of inherited objects, or "" for an empty list.
func inheritedDigest(inherited []bundle.ObjectRef) string {
	if len(inherited) == 0 {
		return ""
	}
	text, err := json.Marshal(inherited)
	if err != nil {
		return "" // cannot happen, because structs of strings always encode
	}
	return digest.FromBytes(text).String()
}

// withInherited returns an inventory with the inherited objects added, without duplicates.
func withInherited(synced []v1beta2.Resource, inherited []bundle.ObjectRef) []v1beta2.Resource {
	all := slices.Clone(synced)
	for _, o := range inherited {
		known := slices.ContainsFunc(synced, func(r v1beta2.Resource) bool {
			return r.Group == o.Group && r.Kind == o.Kind && r.Namespace == o.Namespace && r.Name == o.Name
		})
		if !known {
			all = append(all, v1beta2.Resource{
				Name: o.Name, Namespace: o.Namespace, GroupVersionKind: metav1.GroupVersionKind(o.GVK()),
			})
		}
	}
	return all
}
