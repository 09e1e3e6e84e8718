package objects

import (
	"context"
	"errors"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// renames returns which Manifests of a bundle take over another one, by the name of the other. That one has to be removed by the same bundle and not
// asked for; of several that would take it, the first one does.
func renames(b *bundle.Bundle) map[string]string {
	leaving := map[string]bool{}
	for _, module := range b.Statement.Predicate.Removals {
		leaving[strings.ReplaceAll(module, "/", "-")] = true
	}
	for _, m := range b.State.Manifests {
		delete(leaving, m.Name)
	}
	renamed := map[string]string{}
	for _, m := range b.State.Manifests {
		former := m.Annotations[v1beta2.AnnotationRenamedFrom]
		if leaving[former] && renamed[former] == "" && !m.Unmanaged {
			renamed[former] = m.Name
		}
	}
	return renamed
}

// takesOver reports whether a Manifest is one that takes over another, by what renames returned.
func takesOver(m bundle.Manifest, taken map[string]string) bool {
	former := m.Annotations[v1beta2.AnnotationRenamedFrom]
	return former != "" && taken[former] == m.Name
}

// renamed writes a Manifest that takes over another one. The other one is marked first, so that the installer leaves its objects alone, and deleted
// last; it stays until its successor has the list of its objects.
func (s *Syncer) renamed(ctx context.Context, former string, successor bundle.Manifest, write func() error) error {
	manifest := &v1beta2.Manifest{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: former}, manifest)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return write() // it is taken over already, or never was there
	}
	if err := s.markRenamed(ctx, manifest, successor.Name); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return s.delete(ctx, manifest, "Manifest")
}

// end deletes a Manifest for good. One that was to be taken over is not any more: whoever was to do it may go as well, and would be waited for.
func (s *Syncer) end(ctx context.Context, manifest *v1beta2.Manifest) error {
	return errors.Join(s.markRenamed(ctx, manifest, ""), s.delete(ctx, manifest, "Manifest"))
}

// markRenamed says on a Manifest which other one takes it over; empty takes that back.
func (s *Syncer) markRenamed(ctx context.Context, manifest *v1beta2.Manifest, successor string) error {
	before := manifest.DeepCopy()
	if successor == "" {
		delete(manifest.Annotations, v1beta2.AnnotationRenamedTo)
	} else {
		manifest.Annotations = with(manifest.Annotations, map[string]string{v1beta2.AnnotationRenamedTo: successor})
	}
	return client.IgnoreNotFound(s.patch(ctx, before, manifest, "Manifest"))
}
