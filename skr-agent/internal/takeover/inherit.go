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
)

// Inherit adds the objects that lifecycle-manager installed to the list of a module's objects, once for each of its
// lists. An object that was deleted since is not added again. The installer waits while the list is written, and then
// checks the Manifest.
//
// An interrupted step is continued: the annotation that records the end is written last, together with the installer's
// permission.
func (w Writer) Inherit(ctx context.Context, manifest *v1beta2.Manifest, inherited []bundle.ObjectRef) error {
	digest := inheritedDigest(inherited)
	if digest == "" || manifest.Annotations[v1beta2.AnnotationInherited] == digest {
		return nil
	}
	if err := w.standBack(ctx, manifest); err != nil {
		return err
	}
	before := manifest.DeepCopy()
	manifest.Status.Synced = withInherited(manifest.Status.Synced, inherited)
	if manifest.Status.State == "" {
		manifest.Status.State = v1beta2.StateProcessing
	}
	// By the version, so that a list that a cache does not show yet is not lost.
	if err := w.Client.Status().
		Patch(ctx, manifest, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the inherited objects of Manifest %s/%s: %w", namespace, manifest.Name, err)
	}
	before = manifest.DeepCopy()
	delete(manifest.Annotations, v1beta2.AnnotationRestoring)
	metav1.SetMetaDataAnnotation(&manifest.ObjectMeta, v1beta2.AnnotationInherited, digest)
	return w.Patch(ctx, before, manifest, "Manifest")
}

// standBack has the installer leave a Manifest alone.
func (w Writer) standBack(ctx context.Context, manifest *v1beta2.Manifest) error {
	before := manifest.DeepCopy()
	metav1.SetMetaDataAnnotation(&manifest.ObjectMeta, v1beta2.AnnotationRestoring, v1beta2.True)
	return w.Patch(ctx, before, manifest, "Manifest")
}

// inheritedDigest returns the digest of a list of inherited objects, or an empty string for an empty list.
func inheritedDigest(inherited []bundle.ObjectRef) string {
	if len(inherited) == 0 {
		return ""
	}
	text, err := json.Marshal(inherited)
	if err != nil {
		return "" // plain data always encodes
	}
	return digest.FromBytes(text).String()
}

// withInherited returns a module's objects with those that it inherits, each once.
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
