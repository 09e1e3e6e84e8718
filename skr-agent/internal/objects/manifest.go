package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/metadata"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

func newManifest(want bundle.Manifest) v1beta2.Manifest {
	return v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: want.Name, Labels: want.Labels, Annotations: want.Annotations,
		},
		Spec: want.Spec,
	}
}

// syncManifest creates or updates a Manifest. matches is true if the Manifest in the cache already matched the bundle.
// A Manifest that was just written does not count as matching, because other parts of the agent can still read an
// outdated copy from the cache.
func (s *Syncer) syncManifest(
	ctx context.Context, want bundle.Manifest, gate maintenance.Gate,
) (matches bool, err error) {
	manifest := &v1beta2.Manifest{}
	err = s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: want.Name}, manifest,
		client.UnsafeDisableDeepCopy)
	if err == nil && s.settled.isSettled("Manifest", manifest) {
		return true, nil
	}
	if apierrors.IsNotFound(err) {
		if gate.BlocksInstall(want) {
			return false, nil
		}
		return false, s.createManifest(ctx, want)
	}
	if err != nil {
		return false, fmt.Errorf("read Manifest %s/%s: %w", namespace, want.Name, err)
	}
	manifest = manifest.DeepCopy()
	if !manifest.DeletionTimestamp.IsZero() {
		// When the Manifest is gone, the next call creates it again.
		return false, s.updateBeforeRemoval(ctx, manifest, want, gate)
	}
	if err := s.takeoverWriter().Inherit(ctx, manifest, want.Inherited); err != nil {
		return false, err
	}
	if gate.BlocksUpgrade(manifest, want) {
		return false, nil
	}
	before := manifest.ResourceVersion
	if err := s.updateManifest(ctx, manifest, want); err != nil || manifest.ResourceVersion != before {
		return false, err
	}
	s.settled.markSettled("Manifest", manifest)
	return true, nil
}

// createManifest creates a Manifest, or restores it if another client deleted it.
func (s *Syncer) createManifest(ctx context.Context, want bundle.Manifest) error {
	if known, err := s.Restorer.restoreOne(ctx, want.Name); known || err != nil {
		return err // the next reconciliation updates the restored Manifest's spec
	}
	manifest := newManifest(want)
	if len(want.Inherited) > 0 {
		// The field Restoring in the record stops the installer until the inherited objects are in the Manifest's
		// inventory.
		manifest.Annotations = maps.Clone(want.Annotations)
		if err := s.Records.Set(&manifest, record.Record{Restoring: true}); err != nil {
			return err
		}
	}
	switch err := s.Client.Create(ctx, &manifest); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("create Manifest %s/%s: %w", namespace, want.Name, err)
	}
	return s.takeoverWriter().Inherit(ctx, &manifest, want.Inherited)
}

// updateRemoved updates the Manifest for a module that is being removed (see updateBeforeRemoval).
func (s *Syncer) updateRemoved(ctx context.Context, want bundle.Manifest, gate maintenance.Gate) error {
	manifest := &v1beta2.Manifest{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: want.Name}, manifest); err != nil {
		return client.IgnoreNotFound(err)
	}
	if manifest.DeletionTimestamp.IsZero() {
		return nil // nothing to update before the deletion starts
	}
	return s.updateBeforeRemoval(ctx, manifest, want, gate)
}

// updateBeforeRemoval updates a Manifest that is being deleted, because the removal may need a newer version's
// operator. It keeps the default CR in the Manifest's spec, because the installer must still delete this CR. It skips
// unmanaged Manifests, and Manifests that another client deleted. It never downgrades the module: a module that is
// requested again with an older version is installed after its removal.
func (s *Syncer) updateBeforeRemoval(
	ctx context.Context, manifest *v1beta2.Manifest, want bundle.Manifest, gate maintenance.Gate,
) error {
	if gate.BlocksUpgradeBeforeRemoval() || !s.Records.HasRemoval(manifest) || s.Records.IsUnmanaged(manifest) ||
		bundle.IsOlder(want.Spec.Version, manifest.Spec.Version) {
		return nil
	}
	want.Spec.CustomResourcePolicy, want.Spec.Resource = manifest.Spec.CustomResourcePolicy, manifest.Spec.Resource
	return s.updateManifest(ctx, manifest, want)
}

// updateManifest updates an existing Manifest's metadata and spec.
func (s *Syncer) updateManifest(ctx context.Context, manifest *v1beta2.Manifest, want bundle.Manifest) error {
	if manifest.DeletionTimestamp.IsZero() && record.HasUnverifiedRemoval(manifest) {
		if err := s.clearRemoval(ctx, manifest); err != nil {
			return err
		}
	}
	before := manifest.DeepCopy()
	manifest.Labels = metadata.Merge(manifest.Labels, want.Labels, setOf(labelsFromBundle))
	manifest.Annotations = metadata.Merge(manifest.Annotations, want.Annotations, setOf(fromBundle, fromAgent))
	if manifest.DeletionTimestamp.IsZero() {
		delete(manifest.Annotations, v1beta2.AnnotationUnmanaged)
	}
	if !isSameSpec(manifest.Spec, want.Spec) {
		manifest.Spec = want.Spec
	}
	return s.patch(ctx, before, manifest, "Manifest")
}

// isSameSpec reports whether two specs have equal JSON, independent of order and format.
func isSameSpec(a, b v1beta2.ManifestSpec) bool {
	return equality.Semantic.DeepEqual(toGeneric(a), toGeneric(b))
}

func toGeneric(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return err
	}
	return tree
}

// unmanageManifest adds the annotation is-unmanaged to a Manifest and deletes the Manifest. The installer then keeps
// the module's objects.
func (s *Syncer) unmanageManifest(ctx context.Context, name string) error {
	manifest := &v1beta2.Manifest{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, manifest)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	before := manifest.DeepCopy()
	manifest.Annotations = mergeEntries(manifest.Annotations, map[string]string{v1beta2.AnnotationUnmanaged: v1beta2.True})
	if err := s.patch(ctx, before, manifest, "Manifest"); err != nil {
		return err
	}
	return s.deleteUnmanaged(ctx, manifest)
}

func (s *Syncer) deleteUnmanaged(ctx context.Context, manifest *v1beta2.Manifest) error {
	if err := s.markRemoval(ctx, manifest, true); err != nil {
		return err
	}
	return s.deleteObject(ctx, manifest, "Manifest")
}

// markRemoval records on the Manifest that a bundle requests its deletion, and whether the module becomes unmanaged.
// Without this record, the agent keeps the module's objects when the Manifest is deleted.
func (s *Syncer) markRemoval(ctx context.Context, m *v1beta2.Manifest, unmanaged bool) error {
	r := s.Records.Read(m)
	// After the deletion of an unmanaged module's Manifest has begun, the agent is already releasing the module's
	// objects. A later bundle cannot make the agent delete them.
	if r.Removal == m.UID && (r.Unmanaged == unmanaged || r.Unmanaged && !m.DeletionTimestamp.IsZero()) {
		return nil
	}
	if err := s.Restorer.recordRemoval(ctx, m); err != nil {
		return err
	}
	err := s.updateRecord(ctx, m, func(r *record.Record) { r.Removal, r.Unmanaged = m.UID, unmanaged })
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("mark Manifest %s/%s for removal: %w", m.Namespace, m.Name, err)
	}
	return nil
}

// clearRemoval removes markRemoval's entry from the Manifest's record, because a bundle requests the module again.
func (s *Syncer) clearRemoval(ctx context.Context, m *v1beta2.Manifest) error {
	if err := s.Restorer.clearRemoval(ctx, m); err != nil {
		return err
	}
	if err := s.updateRecord(ctx, m, func(r *record.Record) { r.Removal, r.Unmanaged = "", false }); err != nil {
		return fmt.Errorf("record the end of the removal of Manifest %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}

// updateRecord changes the signed record in a Manifest's annotation.
func (s *Syncer) updateRecord(ctx context.Context, m *v1beta2.Manifest, change func(*record.Record)) error {
	return s.Records.Update(ctx, s.Client, s.Uncached, m, change, client.FieldOwner(fieldOwner))
}

// fromBundle lists the agent's annotations that a bundle can set on a Manifest.
var fromBundle = []string{
	v1beta2.AnnotationCustomStateCheck, v1beta2.AnnotationRecreate, v1beta2.AnnotationUsesValues,
	v1beta2.AnnotationRequiresFeatures,
}

// fromAgent lists the annotations that completeManifest computes.
var fromAgent = []string{
	v1beta2.AnnotationModule, v1beta2.AnnotationFQDN, v1beta2.AnnotationImages, v1beta2.AnnotationValues,
	v1beta2.AnnotationKymas,
}

// labelsFromBundle lists the labels that a bundle can set on a Manifest. Other labels belong to users.
var labelsFromBundle = []string{
	v1beta2.LabelKymaName, v1beta2.LabelManagedBy, v1beta2.LabelChannel, v1beta2.LabelControllerName,
	v1beta2.LabelMandatoryModule,
}

// completeManifest returns a Manifest from the bundle with the labels and annotations that the agent adds, such as the
// module's name, image rules and values. It removes the agent's other annotations from the bundle's Manifest, because a
// bundle must not replace the state that the agent records in them.
func completeManifest(want bundle.Manifest, b *bundle.Bundle) bundle.Manifest {
	annotations := map[string]string{}
	set := func(annotation, value string) {
		if value != "" {
			annotations[annotation] = value
		}
	}
	for annotation, value := range want.Annotations {
		domain, _, _ := strings.Cut(annotation, "/")
		if domain != agentDomain && domain != v1beta2.Group || slices.Contains(fromBundle, annotation) {
			annotations[annotation] = value
		}
	}
	if want.Name != want.Module {
		set(v1beta2.AnnotationModule, want.Module)
	}
	set(v1beta2.AnnotationFQDN, want.Component)
	set(v1beta2.AnnotationImages, imageRules(want.Release, b.State.Settings))
	set(v1beta2.AnnotationValues, b.Statement.Predicate.Values.For(want).String())
	set(v1beta2.AnnotationKymas, takeover.KymasAnnotation(b.Statement.Predicate))
	want.Annotations = annotations
	labels := map[string]string{}
	for label, value := range want.Labels {
		if slices.Contains(labelsFromBundle, label) {
			labels[label] = value
		}
	}
	labels[v1beta2.LabelModuleName] = bundle.ManifestName(want.Module)
	want.Labels = labels
	return want
}

const agentDomain = "kyma-pull.dev"

// imageRules returns the value of the annotation with the rules for a module's images: mirrors, paths and the pull
// Secret. A module with a release proof must pin its images, so the rules require digests.
func imageRules(release []bundle.Content, settings bundle.Settings) string {
	rules := bundle.ImageRules{
		Settings: bundle.Settings{
			Mirrors: settings.Mirrors, ImagePaths: settings.ImagePaths, ImagePullSecret: settings.ImagePullSecret,
		},
		Pinned: len(release) > 0,
	}
	if len(rules.Mirrors)+len(rules.ImagePaths) == 0 && rules.ImagePullSecret == "" && !rules.Pinned {
		return ""
	}
	text, err := json.Marshal(rules)
	if err != nil {
		panic(fmt.Sprintf("settings always encode: %v", err)) // cannot happen: the settings were decoded from JSON
	}
	return string(text)
}
