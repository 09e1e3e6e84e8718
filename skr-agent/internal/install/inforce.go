package install

import (
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// noteApplied writes down which version is applied whole. It is kept in line from then on, also while a newer one is refused.
func (i *Installer) noteApplied(ctx context.Context, m *v1beta2.Manifest) error {
	text, err := json.Marshal(m.Wanted())
	if err != nil || m.Annotations[v1beta2.AnnotationApplied] == string(text) {
		return err
	}
	before := m.DeepCopy()
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[v1beta2.AnnotationApplied] = string(text)
	if err := i.cluster.Patch(ctx, m, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("note the version that is applied: %w", err)
	}
	return nil
}

// inForce returns the Manifest as it was when it was applied whole last, nil when that is not known.
func inForce(m *v1beta2.Manifest) *v1beta2.Manifest {
	applied := m.Applied()
	if applied == nil {
		return nil
	}
	was := m.DeepCopy()
	was.Spec.Version, was.Spec.Install, was.Spec.Config = applied.Version, applied.Install, applied.Config
	was.Spec.LocalizedImages, was.Spec.Resource = applied.LocalizedImages, applied.Resource
	delete(was.Annotations, v1beta2.AnnotationImages)
	if applied.Images != "" {
		was.Annotations[v1beta2.AnnotationImages] = applied.Images
	}
	return was
}

// isInForce reports whether what a Manifest asks for was applied whole before.
func isInForce(m *v1beta2.Manifest) bool {
	text, err := json.Marshal(m.Wanted())
	return err == nil && m.Annotations[v1beta2.AnnotationApplied] == string(text)
}

// keepInForce puts right what changed of the version that is in force, while what the Manifest asks for is refused. It returns what could not be
// put right. The first time everything is compared: nobody watched before.
func (i *Installer) keepInForce(ctx context.Context, m *v1beta2.Manifest, known *memo, changed keys) keys {
	was := inForce(m)
	record := m.Annotations[v1beta2.AnnotationApplied]
	whole := known.kept != record || i.now().Sub(known.keptAt) >= i.Resync
	if was == nil || !whole && len(changed) == 0 || known.holdBack(i.now()) > 0 {
		return changed
	}
	p, problem, err := i.plan(ctx, was)
	if err != nil || problem != nil {
		return changed // its content is gone, or it is not allowed any more: the Manifest's own trouble is told
	}
	if !whole {
		p.keepOnly(changed)
	}
	corrected, wait, err := i.write(ctx, was, p, true)
	if len(corrected) > 0 {
		i.recordDrift(ctx, m, corrected)
		known.countCorrection(i.now())
	}
	if wait != "" {
		return changed
	}
	known.kept, known.keptAt = record, i.now()
	left := keys{}
	for k := range failedKeys(err) {
		if changed.has(k) {
			left[k] = struct{}{}
		}
	}
	if err != nil && len(failedKeys(err)) == 0 {
		return changed
	}
	return left
}
