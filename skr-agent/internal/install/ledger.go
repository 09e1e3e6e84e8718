package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// ledger writes the agent's record on a Manifest: the applied version, completed Jobs and recreated objects.
type ledger struct {
	cluster client.Client
	records record.Store
}

// recordApplied records the version that was applied completely. The agent corrects drift from this version while it
// refuses a newer version.
func (l *ledger) recordApplied(ctx context.Context, m *v1beta2.Manifest, known *memo) error {
	if planning.IsLastApplied(m) && !l.records.Read(m).Applied.Unconfirmed {
		known.hasBegun = false
		return nil
	}
	recorded, err := l.writeApplied(ctx, m, known, record.RequestedVersion(m))
	if recorded {
		known.hasBegun = false
	}
	return err
}

// begin records that the agent starts to apply a new version. After an interruption, the agent then does not correct
// drift toward the old version.
func (l *ledger) begin(ctx context.Context, m *v1beta2.Manifest, known *memo) error {
	applied := l.records.Read(m).Applied
	if applied == nil || planning.IsLastApplied(m) {
		return nil
	}
	known.hasBegun = true
	wanted := record.RequestedVersion(m).Digest
	if applied.InProgress == wanted || applied.Unconfirmed {
		return nil // the agent does not correct drift from an unconfirmed version
	}
	applied.InProgress = wanted
	_, err := l.writeApplied(ctx, m, known, *applied)
	return err
}

// writeApplied writes the applied version to the Manifest's record. It reports whether it wrote the record. It returns
// only temporary errors, because a module works without the record.
func (l *ledger) writeApplied(
	ctx context.Context, m *v1beta2.Manifest, known *memo, version record.AppliedVersion,
) (bool, error) {
	err := l.records.Update(ctx, l.cluster, nil, m, func(r *record.Record) { r.Applied = &version })
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
				"failed to record the applied version; its drift is not corrected while another version is refused",
				"module", m.Module())
	}
	if record.ReadUnverified(m).Applied == nil {
		return false, nil
	}
	if err := l.records.Update(ctx, l.cluster, nil, m, func(r *record.Record) { r.Applied = nil }); err != nil {
		log.FromContext(ctx).V(1).Info("failed to remove the outdated record of the applied version",
			"module", m.Module(), "error", err.Error())
	}
	return false, nil
}

// lastApplied returns a copy of the Manifest with the version that was last applied completely. It returns nil if this
// version is unknown, or if the agent has started to apply a different version. If the Manifest requests a different
// version, the copy has no default CR.
func (l *ledger) lastApplied(m *v1beta2.Manifest) *v1beta2.Manifest {
	applied := l.records.Read(m).Applied
	if applied == nil || applied.InProgress != "" || applied.ImagesOmitted || applied.Unconfirmed {
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

// addCompletedJobs records completed Jobs and Pods.
func (l *ledger) addCompletedJobs(ctx context.Context, m *v1beta2.Manifest, jobs object.Keys) error {
	completed, started := planning.CompletedJobs(m), planning.StartedJobs(m)
	before := len(completed)
	for k := range jobs {
		completed[k] = struct{}{}
		delete(started, k)
	}
	if len(completed) == before {
		return nil
	}
	return l.recordJobs(ctx, m, completed, started)
}

// addStartedJob records an applied Job with a TTL. It does nothing after the version was applied completely, because
// the inventory then contains the started Jobs.
func (l *ledger) addStartedJob(ctx context.Context, m *v1beta2.Manifest, job guard.Key) error {
	completed, started := planning.CompletedJobs(m), planning.StartedJobs(m)
	if started.Has(job) || completed.Has(job) || planning.IsLastApplied(m) {
		return nil
	}
	started[job] = struct{}{}
	return l.recordJobs(ctx, m, completed, started)
}

func (l *ledger) recordJobs(ctx context.Context, m *v1beta2.Manifest, completed, started object.Keys) error {
	next := record.CompletedJobs{
		Version: planning.JobVersion(m), Jobs: namesOf(completed, object.JobKind),
		Pods: namesOf(completed, object.PodKind),
	}
	next.Started = namesOf(started, object.JobKind)
	next.Started = next.Started[:min(len(next.Started), maxCompletedJobs-len(next.Jobs))]
	if err := l.records.Update(ctx, l.cluster, nil, m, func(r *record.Record) { r.CompletedJobs = &next }); err != nil {
		return fmt.Errorf("record Jobs: %w", err)
	}
	return nil
}

// namesOf returns the first maxCompletedJobs objects of a kind as NAMESPACE/NAME.
func namesOf(objects object.Keys, kind schema.GroupKind) []string {
	names := []string{}
	for k := range objects {
		if k.GroupKind() == kind {
			names = append(names, k.Namespace+"/"+k.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxCompletedJobs)]
}

// recordRecreation records the UIDs of the objects that the agent is about to delete for a version.
func (l *ledger) recordRecreation(ctx context.Context, m *v1beta2.Manifest, uids []types.UID) error {
	next := record.Recreated{Version: planning.WantedDigest(m)}
	known := record.ReadUnverified(m).Recreated
	if known != nil && known.Version == next.Version {
		next.Objects = slices.Clone(known.Objects)
	}
	before := len(next.Objects)
	for _, uid := range uids {
		if !slices.Contains(next.Objects, uid) {
			next.Objects = append(next.Objects, uid)
		}
	}
	if len(next.Objects) == before {
		return nil
	}
	err := l.records.Update(ctx, l.cluster, nil, m, func(r *record.Record) { r.Recreated = &next })
	if err != nil {
		return fmt.Errorf("record the recreated objects: %w", err)
	}
	return nil
}

// maxCompletedJobs limits the recorded Jobs, completed and started together, and the recorded Pods.
const maxCompletedJobs = 200
