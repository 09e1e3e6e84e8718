// Package objects writes the Kyma, the module catalog and the Manifests of a verified bundle to the runtime. It leaves
// matching objects alone, so a settled runtime sees no writes.
//
// It removes a Manifest only if the bundle lists its module among the removals.
package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/secrets"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// Syncer writes to one runtime. Its reads may be cached. It must be used from one goroutine.
type Syncer struct {
	Client client.Client
	// Uncached reads objects that no cache holds: leftovers of lifecycle-manager, and the owners of fields.
	Uncached client.Client
	// Secrets are deleted with the last module of a runtime whose Kyma was deleted.
	Secrets *secrets.Keeper
	// Keeper records the Manifests that a bundle removes. Nil records nothing.
	Keeper *Keeper
	// Label sets labels on the agent's namespace. Nil keeps them.
	Label func(ctx context.Context, want map[string]string) error

	attempts attempts
	settled  settled
	labels   labeling
	takeover takeover.Phases

	// written is the digest of the last bundle that was written completely. complete is true while that bundle is the
	// latest one.
	written  string
	complete atomic.Bool
}

// IsIncomplete reports whether Manifests of the latest bundle are still being written. Any goroutine may call it.
func (s *Syncer) IsIncomplete() bool { return !s.complete.Load() }

// begin starts to write a bundle.
func (s *Syncer) begin(b *bundle.Bundle) {
	if s.written != b.Digest.String() {
		s.complete.Store(false)
	}
}

// finish ends a bundle: all its Manifests are written, except waiting and failed ones.
func (s *Syncer) finish(b *bundle.Bundle) {
	s.written = b.Digest.String()
	s.complete.Store(true)
}

const namespace = v1beta2.RuntimeNamespace

// all is the object name for reads of all objects of a kind.
const all = "*"

// Sync writes the objects of a bundle. unstaged are the modules whose content is not available, with the reason. Their
// Manifests stay, and so do those whose upgrade the gate holds. A failed object does not block others, and is tried
// again with its own backoff.
func (s *Syncer) Sync(
	ctx context.Context, b *bundle.Bundle, unstaged map[string]error, gate maintenance.Gate, now time.Time,
) Outcome {
	s.begin(b)
	defer s.finish(b)
	s.attempts.begin(b.Digest.String(), now)
	if b.Statement.Predicate.Deleting {
		s.deleteAll(ctx, b.Statement.Predicate.Sealed)
		return s.attempts.end()
	}
	if takeover.Releases(b) {
		s.takeover.Run(ctx, b, s.writer())
		return s.outcome()
	}
	s.install(ctx, b, b.State.Manifests, unstaged, gate, now)
	for _, manifest := range b.State.Leaving {
		if unstaged[manifest.Module] == nil {
			manifest.Annotations = annotated(manifest, b)
			s.attempts.try("Manifest", manifest.Name, manifest.Module, func() error { return s.leaving(ctx, manifest) })
		}
	}
	s.removals(ctx, b.Statement.Predicate.Removals)
	s.takeover.Run(ctx, b, s.writer())
	return s.outcome()
}

// SyncStaged is the part of Sync that can start while the content of the waiting modules is still being fetched. It
// writes the Manifests of all other modules. It removes no module and leaves none unmanaged. The next Sync reports
// failures.
func (s *Syncer) SyncStaged(
	ctx context.Context, b *bundle.Bundle, waiting map[string]error, gate maintenance.Gate, now time.Time,
) {
	if b.Statement.Predicate.Deleting || b.State.Takeover != "" {
		return
	}
	s.begin(b)
	s.attempts.begin(b.Digest.String(), now)
	ready := slices.DeleteFunc(slices.Clone(b.State.Manifests), func(m bundle.Manifest) bool { return m.Unmanaged })
	s.install(ctx, b, ready, waiting, gate, now)
}

// install writes all objects of a bundle, with only the given Manifests.
func (s *Syncer) install(
	ctx context.Context, b *bundle.Bundle, manifests []bundle.Manifest, unstaged map[string]error,
	gate maintenance.Gate, now time.Time,
) {
	s.settled.begin(b)
	s.attempts.try("Namespace", namespace, "", func() error {
		return s.namespace(ctx, b.State.Settings.NamespaceLabels, now)
	})
	s.attempts.try("Kyma", v1beta2.RuntimeKymaName, "", func() error { return s.kyma(ctx, b.State.Kyma) })
	s.catalog(ctx, b.Modules)
	for _, manifest := range manifests {
		if !manifest.Unmanaged && unstaged[manifest.Module] != nil {
			continue
		}
		s.attempts.try("Manifest", manifest.Name, manifest.Module, func() error {
			if manifest.Unmanaged {
				return s.unmanage(ctx, manifest.Name)
			}
			manifest.Annotations = annotated(manifest, b)
			return s.manifest(ctx, manifest, gate)
		})
	}
}

// writer is the access of the takeover phases to the runtime.
func (s *Syncer) writer() takeover.Writer {
	return takeover.Writer{
		Client: s.Client, Uncached: s.Uncached, Try: s.attempts.try, Failing: s.attempts.failing, Patch: s.patch,
		Delete:      s.delete,
		Definitions: definitions, Owner: FieldOwner, Owners: []string{FieldOwner, defaultOwner},
	}
}

func (s *Syncer) outcome() Outcome {
	out := s.attempts.end()
	out.PhaseDone, out.Removed = s.takeover.Done, s.takeover.Removed
	return out
}

// kyma creates the runtime's Kyma. Its spec belongs to the runtime afterwards, and the agent maintains labels and
// annotations.
func (s *Syncer) kyma(ctx context.Context, seed bundle.KymaSeed) error {
	kyma := &v1beta2.Kyma{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1beta2.RuntimeKymaName}, kyma)
	if apierrors.IsNotFound(err) {
		if err := s.Client.Create(ctx, newKyma(seed.Spec, seed.Labels, seed.Annotations),
			client.FieldOwner(FieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("seed Kyma %s/%s: %w", namespace, v1beta2.RuntimeKymaName, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Kyma %s/%s: %w", namespace, v1beta2.RuntimeKymaName, err)
	}
	before := kyma.DeepCopy()
	keepMetadata(kyma, seed.Labels, seed.Annotations)
	return s.patch(ctx, before, kyma, "Kyma")
}

// with returns have overlaid with want.
func with(have, want map[string]string) map[string]string {
	if len(want) == 0 {
		return have
	}
	merged := maps.Clone(have)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, want)
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

// imageRules returns the annotation with the mirrors of images and their pull Secret for the installer, empty without
// either.
func imageRules(settings bundle.Settings) string {
	rules := bundle.Settings{
		Mirrors: settings.Mirrors, ImagePaths: settings.ImagePaths, ImagePullSecret: settings.ImagePullSecret,
	}
	if len(rules.Mirrors)+len(rules.ImagePaths) == 0 && rules.ImagePullSecret == "" {
		return ""
	}
	text, err := json.Marshal(rules)
	if err != nil {
		panic(fmt.Sprintf("settings always encode: %v", err)) // settings were decoded from JSON
	}
	return string(text)
}

// annotated returns a Manifest's annotations with those for the installer: the rules for images, the values of the
// module, and the runtime's Kymas.
func annotated(want bundle.Manifest, b *bundle.Bundle) map[string]string {
	added := map[string]string{}
	if images := imageRules(b.State.Settings); images != "" {
		added[v1beta2.AnnotationImages] = images
	}
	if values := b.Statement.Predicate.Values.For(want).String(); values != "" {
		added[v1beta2.AnnotationValues] = values
	}
	if kymas := takeover.Kymas(b.Statement.Predicate); kymas != "" {
		added[v1beta2.AnnotationKymas] = kymas
	}
	return with(want.Annotations, added)
}

func (s *Syncer) manifest(ctx context.Context, want bundle.Manifest, gate maintenance.Gate) error {
	manifest := &v1beta2.Manifest{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: want.Name}, manifest,
		client.UnsafeDisableDeepCopy)
	if err == nil && s.settled.is("Manifest", manifest) {
		return nil
	}
	manifest = manifest.DeepCopy()
	if apierrors.IsNotFound(err) && gate.HoldsUnmanaged(want) {
		return nil
	}
	if apierrors.IsNotFound(err) {
		manifest = &v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: want.Name, Labels: want.Labels, Annotations: want.Annotations,
			},
			Spec: want.Spec,
		}
		if len(want.Inherited) > 0 {
			// The mark stays until its list is written.
			manifest.Annotations = with(want.Annotations, map[string]string{v1beta2.AnnotationRestoring: v1beta2.True})
		}
		switch err := s.Client.Create(ctx, manifest); {
		case apierrors.IsAlreadyExists(err):
			return nil
		case err != nil:
			return fmt.Errorf("create Manifest %s/%s: %w", namespace, want.Name, err)
		}
		return s.writer().Inherit(ctx, manifest, want.Inherited)
	}
	if err != nil {
		return fmt.Errorf("read Manifest %s/%s: %w", namespace, want.Name, err)
	}
	if !manifest.DeletionTimestamp.IsZero() {
		return s.renewLeaving(ctx, manifest, want) // it is created again after its deletion
	}
	if err := s.writer().Inherit(ctx, manifest, want.Inherited); err != nil {
		return err
	}
	if gate.Holds(manifest, want) {
		return nil
	}
	before := manifest.ResourceVersion
	err = s.renew(ctx, manifest, want)
	if err == nil && manifest.ResourceVersion == before {
		s.settled.note("Manifest", manifest)
	}
	return err
}

// leaving keeps a module at its last version until it is removed.
func (s *Syncer) leaving(ctx context.Context, want bundle.Manifest) error {
	manifest := &v1beta2.Manifest{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: want.Name}, manifest); err != nil {
		return client.IgnoreNotFound(err)
	}
	if manifest.DeletionTimestamp.IsZero() {
		return nil // its deletion comes first
	}
	return s.renewLeaving(ctx, manifest, want)
}

// renewLeaving updates a Manifest that is being deleted, because only the operator of a newer version may be able to
// finish. Its default CR stays the one to delete. A Manifest that another client deleted, or that is unmanaged, stays.
func (s *Syncer) renewLeaving(ctx context.Context, manifest *v1beta2.Manifest, want bundle.Manifest) error {
	if !manifest.IsRemoved() || manifest.Annotations[v1beta2.AnnotationUnmanaged] == v1beta2.True {
		return nil
	}
	want.Spec.CustomResourcePolicy, want.Spec.Resource = manifest.Spec.CustomResourcePolicy, manifest.Spec.Resource
	return s.renew(ctx, manifest, want)
}

// renew updates an existing Manifest.
func (s *Syncer) renew(ctx context.Context, manifest *v1beta2.Manifest, want bundle.Manifest) error {
	before := manifest.DeepCopy()
	manifest.Labels, manifest.Annotations = with(manifest.Labels, want.Labels),
		with(manifest.Annotations, want.Annotations)
	for _, annotation := range []string{v1beta2.AnnotationImages, v1beta2.AnnotationKymas, v1beta2.AnnotationRecreate,
		v1beta2.AnnotationValues, v1beta2.AnnotationUsesValues} {
		if want.Annotations[annotation] == "" {
			delete(manifest.Annotations, annotation)
		}
	}
	if manifest.DeletionTimestamp.IsZero() && manifest.IsRemoved() {
		if err := s.clearRemoval(ctx, manifest); err != nil {
			return err
		}
	}
	if !sameSpec(manifest.Spec, want.Spec) {
		manifest.Spec = want.Spec
	}
	return s.patch(ctx, before, manifest, "Manifest")
}

// sameSpec compares specs as the API server stores them, because raw JSON has several forms.
func sameSpec(a, b v1beta2.ManifestSpec) bool {
	return equality.Semantic.DeepEqual(generic(a), generic(b))
}

func generic(v any) any {
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

// unmanage stops managing a module and keeps its resources.
func (s *Syncer) unmanage(ctx context.Context, name string) error {
	manifest := &v1beta2.Manifest{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, manifest)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	before := manifest.DeepCopy()
	manifest.Annotations = with(manifest.Annotations, map[string]string{v1beta2.AnnotationUnmanaged: v1beta2.True})
	if err := s.patch(ctx, before, manifest, "Manifest"); err != nil {
		return err
	}
	return s.delete(ctx, manifest, "Manifest")
}

// removals deletes the Manifests of modules.
func (s *Syncer) removals(ctx context.Context, modules []string) {
	if len(modules) == 0 {
		return
	}
	var manifests v1beta2.ManifestList
	s.attempts.try("Manifest", all, "", func() error { return s.list(ctx, &manifests, "Manifests") })
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
		if err := s.markRemoval(ctx, manifest); err != nil {
			return err
		}
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := s.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}
