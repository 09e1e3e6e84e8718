package install

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// A Job or a Pod without a controller runs once per module version. Kubernetes deletes a completed Job after its TTL,
// and completed Pods if there are many. If the agent created such an object again, a migration could run twice. The
// Manifest's record therefore contains completed Jobs that were deleted, and completed Pods. A watch shows the
// completion of a Job, but not of a Pod, so the agent records a Pod when it reads its status. A Job can also complete
// and disappear while the agent does not run, so the record contains the started Jobs with a TTL.

// recordCompleted records the Jobs that completed and were deleted according to their watch.
func (ap *applier) recordCompleted(ctx context.Context, m *v1beta2.Manifest) error {
	name := client.ObjectKeyFromObject(m)
	jobs := ap.watches.TakeCompleted(name)
	err := ap.ledger.addCompletedJobs(ctx, m, jobs)
	if err != nil {
		for k := range jobs {
			ap.watches.MarkCompleted(name, k)
		}
	}
	return err
}

// withoutCompleted returns a stage without the Jobs and Pods that completed for this version. It also leaves out a Job
// that has a TTL, was applied before and does not exist, because Kubernetes deletes such a Job after its completion. It
// keeps such a Job if seen contains it: a watch then reported its deletion, possibly by another client.
func (ap *applier) withoutCompleted(
	ctx context.Context, m *v1beta2.Manifest, stage []*unstructured.Unstructured, seen object.Keys,
) ([]*unstructured.Unstructured, error) {
	completed, started, expired := planning.CompletedJobs(m), planning.StartedJobs(m), object.Keys{}
	applied, before := record.ReadUnverified(m).Applied, object.KeysOf(m.Status.Synced)
	isApplied := applied != nil && applied.InProgress == ""
	var left []*unstructured.Unstructured
	for _, o := range stage {
		k := guard.KeyOf(o)
		if k.GroupKind() == object.JobKind && completed.Has(k) {
			continue
		}
		expires := hasTTL(o) && (started.Has(k) || isApplied && before.Has(k)) && !seen.Has(k)
		if expires || completed.Has(k) {
			live, err := ap.planner.accounts.Of(m).Metadata(ctx, object.ResourceOf(o))
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
	return left, ap.ledger.addCompletedJobs(ctx, m, expired)
}

// hasTTL reports whether an object is a Job that Kubernetes deletes after its end.
func hasTTL(o *unstructured.Unstructured) bool {
	_, has, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "ttlSecondsAfterFinished")
	return has && guard.KeyOf(o).GroupKind() == object.JobKind
}
