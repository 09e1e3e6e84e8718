// Package objects writes a verified bundle's Kyma, module catalog and Manifests to the runtime. It removes a Manifest
// only if the bundle lists its module among the removals.
package objects

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/secrets"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// Syncer writes a bundle's objects to one runtime. It is not safe for concurrent use.
type Syncer struct {
	Client client.Client
	// Uncached reads from the API server. The cache lacks lifecycle-manager's objects and managedFields.
	Uncached client.Client
	// Secrets deletes the sealed Secrets if the Kyma was deleted in the control plane.
	Secrets *secrets.Reconciler
	// Restorer records the Manifests that a bundle removes. If nil, they are not recorded.
	Restorer *Restorer
	// Records reads and writes the Manifests' records. A record is an annotation that describes the agent's work on the
	// Manifest. The installer removes a module only if Records signed the removal in the record.
	Records record.Store
	// Label sets labels on the agent's namespace. Nil disables the labels.
	Label func(ctx context.Context, want map[string]string) error

	attempts attempts
	settled  settledObjects
	labels   appliedLabels
	takeover takeover.Phases

	// seededGeneration is the runtime Kyma's generation after the agent last changed its spec. It is 0 if this process
	// has not changed the spec.
	seededGeneration int64
	progress
}

const namespace = v1beta2.RuntimeNamespace

// allObjects is the object name in a Failure if a kind's objects could not be listed.
const allObjects = "*"

// Sync writes a bundle's objects. It skips the Manifests for modules in contentErrors, because their content is
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
// except for modules in pendingErrors, whose content is missing. It does not remove modules. The next call to Sync
// returns SyncStaged's failures.
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

// install writes a bundle's namespace labels, Kyma and catalog, and the Manifests in manifests.
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

// takeoverWriter returns the clients and functions for the takeover phases.
func (s *Syncer) takeoverWriter() takeover.Writer {
	return takeover.Writer{
		Client: s.Client, Uncached: s.Uncached, Records: s.Records,
		Try: s.attempts.try, HasFailures: s.attempts.hasFailures, Patch: s.patch,
		Unmanage:    s.deleteUnmanaged,
		Definitions: loadCRDs, Owner: fieldOwner, Owners: []string{fieldOwner, defaultOwner},
	}
}

func (s *Syncer) collectOutcome() Outcome {
	out := s.attempts.collectOutcome()
	out.PhaseDone, out.Removed = s.takeover.CompletedBundle, s.takeover.Removed
	return out
}

func (s *Syncer) patch(ctx context.Context, before, after client.Object, kind string) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	if err := s.Client.Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("update %s %s/%s: %w", kind, after.GetNamespace(), after.GetName(), err)
	}
	return nil
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

// deleteAll removes all objects for a Kyma that was deleted in the control plane: first modules, then sealed Secrets
// and the catalog, and finally the runtime's Kyma.
func (s *Syncer) deleteAll(ctx context.Context, sealed *bundle.Sealed) {
	var manifests v1beta2.ManifestList
	s.attempts.try("Manifest", allObjects, "", func() error { return s.list(ctx, &manifests, "Manifests") })
	for i := range manifests.Items {
		m := &manifests.Items[i]
		s.attempts.try("Manifest", m.Name, "", func() error { return s.delete(ctx, m, "Manifest") })
	}
	if len(manifests.Items) > 0 || s.attempts.hasFailures() {
		return
	}
	s.attempts.try("Secret", allObjects, "", func() error { return s.Secrets.Clear(ctx, sealed) })
	s.syncCatalog(ctx, bundle.Catalog{})
	if !s.attempts.hasFailures() {
		s.attempts.try("Kyma", v1beta2.RuntimeKymaName, "", func() error { return s.deleteKyma(ctx) })
	}
}

// labelInterval is the interval between checks of the namespace's labels, which the agent does not watch.
const labelInterval = time.Minute

// appliedLabels contains the labels that the agent last set on its namespace, and the time when it set them.
type appliedLabels struct {
	labels    map[string]string
	changedAt time.Time
}

// labelNamespace sets labels on the agent's namespace: the label managed-by, and the labels in the bundle's settings.
func (s *Syncer) labelNamespace(ctx context.Context, settings map[string]string, now time.Time) error {
	want := mergeEntries(map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma}, settings)
	if s.Label == nil || maps.Equal(want, s.labels.labels) && now.Before(s.labels.changedAt.Add(labelInterval)) {
		return nil
	}
	err := s.Label(ctx, want)
	if apierrors.IsForbidden(err) && len(settings) == 0 {
		err = nil // without labels in the bundle, the permission is optional
	}
	if err != nil {
		return err
	}
	s.labels = appliedLabels{want, now}
	return nil
}

// progress records which of a bundle's Manifests are written. The installer reads it before it deletes an object that
// another module may take over.
type progress struct {
	// writtenBundle is the digest of the last bundle that was written completely. isComplete is false while a newer
	// bundle is being written.
	writtenBundle string
	isComplete    atomic.Bool
	// unwritten contains the bundle's Manifests that the runtime's Manifests do not match yet. published contains the
	// Manifests from the last complete call to Sync.
	unwritten []v1beta2.Manifest
	published atomic.Pointer[[]v1beta2.Manifest]
}

// IsIncomplete reports whether the latest bundle's Manifests are still being written. It is safe for concurrent use.
func (s *progress) IsIncomplete() bool { return !s.isComplete.Load() }

// Unwritten returns the latest bundle's Manifests that the runtime's Manifests do not match yet, for example because an
// upgrade waits for its maintenance window. It is safe for concurrent use. Callers must not modify the result.
func (s *progress) Unwritten() []v1beta2.Manifest {
	if published := s.published.Load(); published != nil {
		return *published
	}
	return nil
}

// begin marks a new bundle as incomplete.
func (s *progress) begin(b *bundle.Bundle) {
	s.unwritten = nil
	if s.writtenBundle != b.Digest.String() {
		s.isComplete.Store(false)
	}
}

// finish records that Sync has tried to write all Manifests of the bundle, except Manifests whose upgrade waits.
func (s *progress) finish(b *bundle.Bundle) {
	s.writtenBundle = b.Digest.String()
	unwritten := s.unwritten // the next call to begin resets the field while other goroutines read the copy
	s.published.Store(&unwritten)
	s.isComplete.Store(true)
}

// settledObjects records the objects that match the bundle. The agent does not compare them again until the object or
// the bundle changes.
type settledObjects struct {
	// manifests and catalog are from the bundle that was last compared.
	manifests []bundle.Manifest
	catalog   bundle.Catalog
	settings  string
	values    bundle.Values
	versions  map[string]string // UID and resource version of each matching object; the key is KIND/NAME
}

// reset drops all records if the bundle's content changed.
func (s *settledObjects) reset(b *bundle.Bundle) {
	if settings := imageRules(nil, b.State.Settings); s.versions == nil || settings != s.settings ||
		!maps.Equal(b.Statement.Predicate.Values, s.values) ||
		!isSameSlice(s.manifests, b.State.Manifests) || !isSameSlice(s.catalog.ModuleTemplates, b.Modules.ModuleTemplates) ||
		!isSameSlice(s.catalog.ModuleReleaseMetas, b.Modules.ModuleReleaseMetas) {
		*s = settledObjects{b.State.Manifests, b.Modules, settings, b.Statement.Predicate.Values, map[string]string{}}
	}
}

// isSameSlice reports whether a and b are the same slice in memory.
func isSameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func objectVersion(o client.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }

// isSettled reports whether an object matched the bundle and has not changed since then.
func (s *settledObjects) isSettled(kind string, o client.Object) bool {
	return s.versions[kind+"/"+o.GetName()] == objectVersion(o)
}

// markSettled records that an object matches the bundle, so that it is not compared again.
func (s *settledObjects) markSettled(kind string, o client.Object) {
	if s.versions != nil {
		s.versions[kind+"/"+o.GetName()] = objectVersion(o)
	}
}
