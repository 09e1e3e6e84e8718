// Package objects writes what a bundle says as objects of the runtime: Kyma, module catalog and Manifests. A verified
// bundle goes in; objects that are as they should be are left alone, so that a runtime in line sees no writes.
//
// It removes a Manifest only when the bundle names its module among the removals.
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

// Syncer writes to one runtime. Reads may come from a cache. It is used by one goroutine.
type Syncer struct {
	Client client.Client
	// Uncached reads what no cache has: what lifecycle-manager left, and who owns which fields.
	Uncached client.Client
	// Secrets are deleted with the last module of a runtime whose Kyma was deleted.
	Secrets *secrets.Keeper
	// Keeper is told which Manifests a bundle removes; nil remembers nothing.
	Keeper *Keeper
	// Label gives the agent's namespace labels; nil leaves them as they are.
	Label func(ctx context.Context, want map[string]string) error

	attempts attempts
	settled  settled
	labels   labeling
	takeover takeover.Phases

	// written is the digest of the last bundle that was written whole; complete is set while it is the latest one.
	written  string
	complete atomic.Bool
}

// IsIncomplete reports whether Manifests of the latest bundle are still being written. Any goroutine may call it.
func (s *Syncer) IsIncomplete() bool { return !s.complete.Load() }

// begin starts writing a bundle.
func (s *Syncer) begin(b *bundle.Bundle) {
	if s.written != b.Digest.String() {
		s.complete.Store(false)
	}
}

// finish ends writing a bundle: all its Manifests are written, except those that wait or could not be.
func (s *Syncer) finish(b *bundle.Bundle) {
	s.written = b.Digest.String()
	s.complete.Store(true)
}

const namespace = v1beta2.RuntimeNamespace

// all stands for the name of an object where all of a kind are read.
const all = "*"

// Sync brings the objects in line with the bundle. unstaged are the modules whose content is not at hand, with the
// reason: their Manifests stay as they are, and so do those whose upgrade the gate holds. What fails for one object
// does not keep the others from being written; it is tried again with its own backoff.
func (s *Syncer) Sync(ctx context.Context, b *bundle.Bundle, unstaged map[string]error, gate maintenance.Gate, now time.Time) Outcome {
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

// SyncStaged is the part of Sync that can begin while the content of some modules, those waiting, is still being
// fetched: it writes the Manifests of all others. It removes no module and leaves none unmanaged. The Sync that follows
// reports what failed.
func (s *Syncer) SyncStaged(ctx context.Context, b *bundle.Bundle, waiting map[string]error, gate maintenance.Gate, now time.Time) {
	if b.Statement.Predicate.Deleting || b.State.Takeover != "" {
		return
	}
	s.begin(b)
	s.attempts.begin(b.Digest.String(), now)
	ready := slices.DeleteFunc(slices.Clone(b.State.Manifests), func(m bundle.Manifest) bool { return m.Unmanaged })
	s.install(ctx, b, ready, waiting, gate, now)
}

// install writes everything that a bundle wants to be there, and of its Manifests these.
func (s *Syncer) install(
	ctx context.Context, b *bundle.Bundle, manifests []bundle.Manifest, unstaged map[string]error, gate maintenance.Gate, now time.Time,
) {
	s.settled.begin(b)
	s.attempts.try("Namespace", namespace, "", func() error { return s.namespace(ctx, b.State.Settings.NamespaceLabels, now) })
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

// writer is what the phases of a takeover write with.
func (s *Syncer) writer() takeover.Writer {
	return takeover.Writer{
		Client: s.Client, Uncached: s.Uncached, Try: s.attempts.try, Failing: s.attempts.failing, Patch: s.patch, Delete: s.delete,
		Definitions: definitions, Owner: FieldOwner, Owners: []string{FieldOwner, defaultOwner},
	}
}

func (s *Syncer) outcome() Outcome {
	out := s.attempts.end()
	out.PhaseDone, out.Removed = s.takeover.Done, s.takeover.Removed
	return out
}

// kyma seeds the runtime's Kyma. Its spec is the runtime's from then on; labels and annotations are kept in line.
func (s *Syncer) kyma(ctx context.Context, seed bundle.KymaSeed) error {
	kyma := &v1beta2.Kyma{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1beta2.RuntimeKymaName}, kyma)
	if apierrors.IsNotFound(err) {
		if err := s.Client.Create(ctx, newKyma(seed.Spec, seed.Labels, seed.Annotations), client.FieldOwner(FieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
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

// with returns have with want laid over it.
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

// imageRules returns the annotation that tells the installer where images are to come from, and with which Secret they
// are pulled; empty when the content says all.
func imageRules(settings bundle.Settings) string {
	rules := bundle.Settings{Mirrors: settings.Mirrors, ImagePaths: settings.ImagePaths, ImagePullSecret: settings.ImagePullSecret}
	if len(rules.Mirrors)+len(rules.ImagePaths) == 0 && rules.ImagePullSecret == "" {
		return ""
	}
	text, err := json.Marshal(rules)
	if err != nil {
		panic(fmt.Sprintf("settings always encode: %v", err)) // they were decoded from JSON
	}
	return string(text)
}

// annotated returns a Manifest's annotations with what the bundle adds for the installer: the rules for images, and the
// values that the module uses.
func annotated(want bundle.Manifest, b *bundle.Bundle) map[string]string {
	added := map[string]string{}
	if images := imageRules(b.State.Settings); images != "" {
		added[v1beta2.AnnotationImages] = images
	}
	if values := b.Statement.Predicate.Values.For(want).String(); values != "" {
		added[v1beta2.AnnotationValues] = values
	}
	return with(want.Annotations, added)
}

func (s *Syncer) manifest(ctx context.Context, want bundle.Manifest, gate maintenance.Gate) error {
	manifest := &v1beta2.Manifest{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: want.Name}, manifest, client.UnsafeDisableDeepCopy)
	if err == nil && s.settled.is("Manifest", manifest) {
		return nil
	}
	manifest = manifest.DeepCopy()
	if apierrors.IsNotFound(err) && gate.HoldsUnmanaged(want) {
		return nil
	}
	if apierrors.IsNotFound(err) {
		manifest = &v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: want.Name, Labels: want.Labels, Annotations: want.Annotations},
			Spec:       want.Spec,
		}
		if len(want.Inherited) > 0 {
			manifest.Annotations = with(want.Annotations, map[string]string{v1beta2.AnnotationRestoring: v1beta2.True}) // until it has its list
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
		return s.renewLeaving(ctx, manifest, want) // it comes back once it is gone
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

// leaving keeps a module that is on its way out at the version that it is to have until it is gone.
func (s *Syncer) leaving(ctx context.Context, want bundle.Manifest) error {
	manifest := &v1beta2.Manifest{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: want.Name}, manifest); err != nil {
		return client.IgnoreNotFound(err)
	}
	if manifest.DeletionTimestamp.IsZero() {
		return nil // it is about to be deleted, which comes first
	}
	return s.renewLeaving(ctx, manifest, want)
}

// renewLeaving brings a Manifest that is being deleted in line, for only the operator of a newer version may be able to
// finish. Its default CR stays the one that is to go. One that somebody else deleted, or that is not looked after any
// more, waits for nothing and stays as it is.
func (s *Syncer) renewLeaving(ctx context.Context, manifest *v1beta2.Manifest, want bundle.Manifest) error {
	if !manifest.IsRemoved() || manifest.Annotations[v1beta2.AnnotationUnmanaged] == v1beta2.True {
		return nil
	}
	want.Spec.CustomResourcePolicy, want.Spec.Resource = manifest.Spec.CustomResourcePolicy, manifest.Spec.Resource
	return s.renew(ctx, manifest, want)
}

// renew brings a Manifest that is there in line.
func (s *Syncer) renew(ctx context.Context, manifest *v1beta2.Manifest, want bundle.Manifest) error {
	before := manifest.DeepCopy()
	manifest.Labels, manifest.Annotations = with(manifest.Labels, want.Labels), with(manifest.Annotations, want.Annotations)
	for _, annotation := range []string{v1beta2.AnnotationImages, v1beta2.AnnotationRecreate,
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

// sameSpec compares what the API server would store; raw JSON may be spelt in several ways.
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

// unmanage ends the management of a module and leaves its resources in place.
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

// removals deletes the Manifests of the modules.
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
