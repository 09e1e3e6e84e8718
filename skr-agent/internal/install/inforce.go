package install

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// recordApplied records the version that was applied completely. The agent corrects drift of this version while it
// refuses a newer version.
func (i *Installer) recordApplied(ctx context.Context, m *v1beta2.Manifest, known *memo) error {
	if planning.IsLastApplied(m) && !i.records.Read(m).Applied.Unconfirmed {
		known.begun = false
		return nil
	}
	recorded, err := i.writeApplied(ctx, m, known, record.Requested(m))
	if recorded {
		known.begun = false
	}
	return err
}

// begin records that the apply of a new version starts. After an interruption, the agent then does not correct drift
// toward the old version.
func (i *Installer) begin(ctx context.Context, m *v1beta2.Manifest, known *memo) error {
	applied := i.records.Read(m).Applied
	if applied == nil || planning.IsLastApplied(m) {
		return nil
	}
	known.begun = true
	wanted := record.Requested(m).Digest
	if applied.Begun == wanted || applied.Unconfirmed {
		return nil // the agent does not correct drift of an unconfirmed version
	}
	applied.Begun = wanted
	_, err := i.writeApplied(ctx, m, known, *applied)
	return err
}

// writeApplied writes the applied version to the Manifest's record. It reports whether it wrote the record. It returns
// only temporary errors, because a module works without the record.
func (i *Installer) writeApplied(
	ctx context.Context, m *v1beta2.Manifest, known *memo, version record.AppliedVersion,
) (bool, error) {
	err := i.records.Update(ctx, i.cluster, nil, m, func(r *record.Record) { r.Applied = &version })
	if err == nil {
		known.recordFailed = false
		return true, nil
	}
	if account.IsTemporary(err) {
		return false, fmt.Errorf("record the applied version: %w", err)
	}
	if !known.recordFailed {
		known.recordFailed = true
		log.FromContext(ctx).
			Error(err,
				"failed to record the applied version, its drift is not corrected while another version is refused",
				"module", m.Module())
	}
	if record.Claims(m).Applied == nil {
		return false, nil
	}
	if err := i.records.Update(ctx, i.cluster, nil, m, func(r *record.Record) { r.Applied = nil }); err != nil {
		log.FromContext(ctx).V(1).Info("failed to remove the outdated record of the applied version",
			"module", m.Module(), "error", err.Error())
	}
	return false, nil
}

// lastApplied returns a copy of the Manifest with the version that was last applied completely. It returns nil if this
// version is unknown, or if the agent has started to apply another version. If the Manifest requests another version,
// the copy has no default CR.
func (i *Installer) lastApplied(m *v1beta2.Manifest) *v1beta2.Manifest {
	applied := i.records.Read(m).Applied
	if applied == nil || applied.Begun != "" || applied.ImagesLeftOut || applied.Unconfirmed {
		return nil
	}
	was := m.DeepCopy()
	was.Spec.Version, was.Spec.Install, was.Spec.Config = applied.Version, applied.Install, applied.Config
	was.Spec.LocalizedImages = applied.LocalizedImages
	if !planning.IsLastApplied(m) {
		was.Spec.Resource = nil
	}
	delete(was.Annotations, v1beta2.AnnotationImages)
	if applied.Images != "" {
		was.Annotations[v1beta2.AnnotationImages] = applied.Images
	}
	delete(was.Annotations, v1beta2.AnnotationValues)
	if applied.Values != "" {
		was.Annotations[v1beta2.AnnotationValues] = applied.Values
	}
	return was
}

// mustCorrectApplied reports whether the agent must correct drift of the last applied version, because it could not
// apply the requested version.
func mustCorrectApplied(m *v1beta2.Manifest, out outcome.Outcome) bool {
	if out.State != v1beta2.StateError || out.Forbidden && planning.IsLastApplied(m) {
		return false
	}
	return out.Untouched || planning.IsLastApplied(m)
}

// correctApplied corrects drift of the last applied version while the requested version is refused. It returns the
// changed objects that are not corrected yet.
func (i *Installer) correctApplied(ctx context.Context, m *v1beta2.Manifest, known *memo, changed object.Keys) object.Keys {
	was := i.lastApplied(m)
	if was == nil {
		return changed
	}
	applied := record.Claims(m).Applied
	version := applied.Version + " " + applied.Digest
	whole := known.kept != version || i.now().Sub(known.keptAt) >= i.Resync
	if known.begun || !whole && len(changed) == 0 || known.holdBack(i.now()) > 0 {
		return changed
	}
	p, problem, err := i.plan(ctx, was)
	if err != nil || problem != nil {
		return changed // ignore it; the status reports the requested version only
	}
	// The last applied version must pass the same checks as a new version.
	if _, problem, err = i.check(ctx, was, &p); err != nil || problem != nil {
		return changed
	}
	if !whole {
		p.KeepOnly(changed)
	}
	p.LeaveUnread()
	corrected, wait, err := i.write(ctx, was, known, p, true, changed)
	if len(corrected) > 0 {
		i.recordDrift(ctx, m, corrected)
		known.countCorrection(i.now())
	}
	if wait != "" {
		return changed
	}
	known.kept, known.keptAt = version, i.now()
	left := object.Keys{}
	for k := range account.FailedKeys(err) {
		if changed.Has(k) {
			left[k] = struct{}{}
		}
	}
	if err != nil && len(account.FailedKeys(err)) == 0 {
		return changed
	}
	return left
}
