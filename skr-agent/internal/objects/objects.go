// Package objects writes the Kyma, the module catalog and the Manifests of a verified bundle to the runtime. It
// removes a Manifest only if the bundle lists its module among the removals.
package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/secrets"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// Syncer writes the objects of a bundle to one runtime. It is not safe for concurrent use.
type Syncer struct {
	Client client.Client
	// Uncached reads from the API server. The cache lacks lifecycle-manager's objects and managedFields.
	Uncached client.Client
	// Secrets deletes the sealed Secrets if the Kyma was deleted in the control plane.
	Secrets *secrets.Reconciler
	// Restorer records the Manifests that a bundle removes. If nil, they are not recorded.
	Restorer *Restorer
	// Records reads and writes the record of the agent's work on each Manifest, which is in an annotation. The
	// installer removes a module only if Records signed the removal in the record.
	Records record.Store
	// Label sets labels on the agent's namespace. Nil disables the labels.
	Label func(ctx context.Context, want map[string]string) error

	attempts attempts
	settled  settledObjects
	labels   appliedLabels
	takeover takeover.Phases

	// seededGeneration is the generation of the runtime's Kyma after the agent last changed its spec. 0 if this process
	// has not changed it.
	seededGeneration int64
	progress
}

const namespace = v1beta2.RuntimeNamespace

// allObjects is the object name in a Failure if all objects of a kind could not be listed.
const allObjects = "*"

// Sync writes the objects of a bundle. It skips the Manifests of modules in contentErrors, because their content is
// missing. It also skips Manifests whose upgrade must wait. An object that cannot be written does not block other
// objects.
func (s *Syncer) Sync(
	ctx context.Context, b *bundle.Bundle, contentErrors map[string]error, gate maintenance.Gate, now time.Time,
) Outcome {
	s.begin(b)
	defer s.finish(b)
	s.attempts.startBundle(b.Digest.String(), now)
	if b.Statement.Predicate.Deleting {
		s.deleteAll(ctx, b.Statement.Predicate.Sealed)
		return s.attempts.collectOutcome()
	}
	if takeover.ReleasesRuntime(b) {
		s.takeover.Run(ctx, b, s.takeoverWriter())
		return s.collectOutcome()
	}
	s.install(ctx, b, b.State.Manifests, contentErrors, gate, now)
	for _, manifest := range b.State.Leaving {
		if contentErrors[manifest.Module] == nil {
			manifest = completeManifest(manifest, b)
			s.attempts.try("Manifest", manifest.Name, manifest.Module, func() error {
				return s.updateRemoved(ctx, manifest, gate)
			})
		}
	}
	s.removeModules(ctx, b.Statement.Predicate.Removals)
	s.takeover.Run(ctx, b, s.takeoverWriter())
	return s.collectOutcome()
}

// SyncStaged is the part of Sync that the agent can run while it fetches module content. It writes the Manifests,
// except those of modules in pendingErrors, whose content is missing. It does not remove modules. The next call of Sync
// returns the failures of SyncStaged.
func (s *Syncer) SyncStaged(
	ctx context.Context, b *bundle.Bundle, pendingErrors map[string]error, gate maintenance.Gate, now time.Time,
) {
	if b.Statement.Predicate.Deleting || b.State.Takeover != "" {
		return
	}
	s.begin(b)
	s.attempts.startBundle(b.Digest.String(), now)
	ready := slices.DeleteFunc(slices.Clone(b.State.Manifests), func(m bundle.Manifest) bool { return m.Unmanaged })
	s.install(ctx, b, ready, pendingErrors, gate, now)
}

// install writes the namespace labels, the Kyma, the catalog and the given Manifests of a bundle.
func (s *Syncer) install(
	ctx context.Context, b *bundle.Bundle, manifests []bundle.Manifest, contentErrors map[string]error,
	gate maintenance.Gate, now time.Time,
) {
	s.settled.reset(b)
	s.attempts.try("Namespace", namespace, "", func() error {
		return s.labelNamespace(ctx, b.State.Settings.NamespaceLabels, now)
	})
	s.attempts.try("Kyma", v1beta2.RuntimeKymaName, "", func() error { return s.syncKyma(ctx, b) })
	s.syncCatalog(ctx, b.Modules)
	for _, manifest := range manifests {
		if manifest.Unmanaged {
			s.attempts.try("Manifest", manifest.Name, manifest.Module, func() error {
				return s.unmanageManifest(ctx, manifest.Name)
			})
			continue
		}
		manifest, matches := completeManifest(manifest, b), false
		if contentErrors[manifest.Module] == nil {
			s.attempts.try("Manifest", manifest.Name, manifest.Module, func() (err error) {
				matches, err = s.syncManifest(ctx, manifest, gate)
				return err
			})
		}
		if !matches {
			s.unwritten = append(s.unwritten, newManifest(manifest))
		}
	}
}

func newManifest(want bundle.Manifest) v1beta2.Manifest {
	return v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: want.Name, Labels: want.Labels, Annotations: want.Annotations,
		},
		Spec: want.Spec,
	}
}

// takeoverWriter returns the clients and functions for the takeover phases.
func (s *Syncer) takeoverWriter() takeover.Writer {
	return takeover.Writer{
		Client: s.Client, Uncached: s.Uncached, Records: s.Records,
		Try: s.attempts.try, HasFailures: s.attempts.hasFailures, Patch: s.patch,
		Unmanage:    s.deleteUnmanaged,
		Definitions: loadCRDs, Owner: FieldOwner, Owners: []string{FieldOwner, defaultOwner},
	}
}

func (s *Syncer) collectOutcome() Outcome {
	out := s.attempts.collectOutcome()
	out.PhaseDone, out.Removed = s.takeover.CompletedBundle, s.takeover.Removed
	return out
}

// syncKyma creates the runtime's Kyma. Before the runtime's first report, the agent also updates the spec from the
// bundle. After that, the spec belongs to the runtime's admin, and the agent updates only labels and annotations.
func (s *Syncer) syncKyma(ctx context.Context, b *bundle.Bundle) error {
	kyma, seed := &v1beta2.Kyma{}, b.State.Kyma
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1beta2.RuntimeKymaName}, kyma)
	if apierrors.IsNotFound(err) {
		if err := s.Client.Create(ctx, newKyma(seed.Spec, seed.Labels, seed.Annotations),
			client.FieldOwner(FieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create Kyma %s/%s: %w", namespace, v1beta2.RuntimeKymaName, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Kyma %s/%s: %w", namespace, v1beta2.RuntimeKymaName, err)
	}
	before := kyma.DeepCopy()
	keepMetadata(kyma, seed.Labels, seed.Annotations)
	updateSeededKyma(kyma, b, s.seededGeneration)
	if err := s.patch(ctx, before, kyma, "Kyma"); err != nil {
		return err
	}
	if kyma.Generation != before.Generation {
		s.seededGeneration = kyma.Generation
	}
	return nil
}

// mergeEntries returns a copy of the live labels or annotations with the desired entries.
func mergeEntries(live, desired map[string]string) map[string]string {
	if len(desired) == 0 {
		return live
	}
	merged := maps.Clone(live)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, desired)
	return merged
}

func (s *Syncer) patch(ctx context.Context, before, after client.Object, kind string) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	if err := s.Client.Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("update %s %s/%s: %w", kind, after.GetNamespace(), after.GetName(), err)
	}
	return nil
}

// syncManifest creates or updates a Manifest. matches is true if the Manifest in the cache already matched the bundle.
// A Manifest that was just written does not count as matching, because other parts of the agent can still read an older
// copy from the cache.
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
	if known, err := s.Restorer.RestoreOne(ctx, want.Name); known || err != nil {
		return err // the next reconciliation updates the spec of the restored Manifest
	}
	manifest := newManifest(want)
	if len(want.Inherited) > 0 {
		// The field Restoring of the record stops the installer until the inherited objects are in the Manifest's
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

// updateRemoved updates the Manifest of a module that is being removed, see updateBeforeRemoval.
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

// updateBeforeRemoval updates a Manifest that is being deleted, because the removal may need the operator of a newer
// version. It keeps the default CR of the Manifest's spec, because the installer must still delete this CR. It skips
// unmanaged Manifests, and Manifests that another client deleted.
func (s *Syncer) updateBeforeRemoval(
	ctx context.Context, manifest *v1beta2.Manifest, want bundle.Manifest, gate maintenance.Gate,
) error {
	if gate.BlocksUpgradeBeforeRemoval() || !s.Records.HasRemoval(manifest) || s.Records.IsUnmanaged(manifest) {
		return nil
	}
	want.Spec.CustomResourcePolicy, want.Spec.Resource = manifest.Spec.CustomResourcePolicy, manifest.Spec.Resource
	return s.updateManifest(ctx, manifest, want)
}

// updateManifest updates the metadata and the spec of an existing Manifest.
func (s *Syncer) updateManifest(ctx context.Context, manifest *v1beta2.Manifest, want bundle.Manifest) error {
	if manifest.DeletionTimestamp.IsZero() && record.HasUnverifiedRemoval(manifest) {
		if err := s.clearRemoval(ctx, manifest); err != nil {
			return err
		}
	}
	before := manifest.DeepCopy()
	manifest.Labels, manifest.Annotations = mergeEntries(manifest.Labels, want.Labels),
		mergeEntries(manifest.Annotations, want.Annotations)
	for _, annotation := range []string{v1beta2.AnnotationImages, v1beta2.AnnotationKymas, v1beta2.AnnotationRecreate,
		v1beta2.AnnotationValues, v1beta2.AnnotationUsesValues, v1beta2.AnnotationModule} {
		if want.Annotations[annotation] == "" {
			delete(manifest.Annotations, annotation)
		}
	}
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

func (s *Syncer) removeModules(ctx context.Context, modules []string) {
	if len(modules) == 0 {
		return
	}
	var manifests v1beta2.ManifestList
	s.attempts.try("Manifest", allObjects, "", func() error { return s.list(ctx, &manifests, "Manifests") })
	for i := range manifests.Items {
		if m := &manifests.Items[i]; slices.Contains(modules, m.Module()) {
			s.attempts.try("Manifest", m.Name, "", func() error { return s.delete(ctx, m, "Manifest") })
		}
	}
}

func (s *Syncer) list(ctx context.Context, list client.ObjectList, kinds string, options ...client.ListOption) error {
	if err := s.Client.List(ctx, list, append(options, client.InNamespace(namespace))...); err != nil {
		return fmt.Errorf("list %s: %w", kinds, err)
	}
	return nil
}

func (s *Syncer) delete(ctx context.Context, object client.Object, kind string) error {
	if manifest, ok := object.(*v1beta2.Manifest); ok {
		if err := s.markRemoval(ctx, manifest, false); err != nil {
			return err
		}
	}
	return s.deleteObject(ctx, object, kind)
}

func (s *Syncer) deleteObject(ctx context.Context, object client.Object, kind string) error {
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := s.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}
