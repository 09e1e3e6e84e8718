package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// A Job runs once per module version. Kubernetes deletes a completed Job after its TTL. If the agent created the Job
// again, a migration could run twice. The Manifest's record therefore contains completed Jobs that were deleted.

const maxCompletedJobs = 200

// addCompletedJobs records that Jobs completed and were deleted.
func (i *Installer) addCompletedJobs(ctx context.Context, m *v1beta2.Manifest, jobs object.Keys) error {
	completed := planning.CompletedJobs(m)
	before := len(completed)
	for k := range jobs {
		completed[k] = struct{}{}
	}
	if len(completed) == before {
		return nil
	}
	names := make([]string, 0, len(completed))
	for k := range completed {
		names = append(names, k.Namespace+"/"+k.Name)
	}
	slices.Sort(names)
	next := record.CompletedJobs{Version: planning.JobVersion(m), Jobs: names[:min(len(names), maxCompletedJobs)]}
	if err := i.records.Update(ctx, i.cluster, nil, m, func(r *record.Record) { r.CompletedJobs = &next }); err != nil {
		return fmt.Errorf("record completed Jobs: %w", err)
	}
	return nil
}

// recordCompleted records the Jobs that completed and were deleted according to their watch.
func (i *Installer) recordCompleted(ctx context.Context, m *v1beta2.Manifest) error {
	name := client.ObjectKeyFromObject(m)
	jobs := i.watches.TakeCompleted(name)
	err := i.addCompletedJobs(ctx, m, jobs)
	if err != nil {
		for k := range jobs {
			i.watches.MarkCompleted(name, k)
		}
	}
	return err
}

// withoutCompleted returns a stage without the Jobs that completed for this version. It also removes a Job with a TTL
// that does not exist, because Kubernetes deletes such a Job after its completion. The exception is a Job in seen, the
// objects with reported changes, because another client can have deleted it.
func (i *Installer) withoutCompleted(
	ctx context.Context, m *v1beta2.Manifest, stage []*unstructured.Unstructured, seen object.Keys,
) ([]*unstructured.Unstructured, error) {
	completed, expired := planning.CompletedJobs(m), object.Keys{}
	applied, before := record.Claims(m).Applied, object.KeysOf(m.Status.Synced)
	var left []*unstructured.Unstructured
	for _, o := range stage {
		k := guard.KeyOf(o)
		if k.GroupKind() != object.JobKind {
			left = append(left, o)
			continue
		}
		if completed.Has(k) {
			continue
		}
		_, hasTTL, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "ttlSecondsAfterFinished")
		if hasTTL && applied != nil && applied.Begun == "" && before.Has(k) && !seen.Has(k) {
			live, err := i.actor(m).Metadata(ctx, object.ResourceOf(o))
			if err != nil {
				return nil, err
			}
			if live == nil {
				expired[k] = struct{}{}
				continue
			}
		}
		left = append(left, o)
	}
	return left, i.addCompletedJobs(ctx, m, expired)
}
